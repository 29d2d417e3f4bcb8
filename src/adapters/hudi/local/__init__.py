"""Hudi tables for frames of Polars: data files are read in this process, and small commits made."""
