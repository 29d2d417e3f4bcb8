"""A backend for Headwater: versioned tables in Parquet folders, frames of Polars."""
