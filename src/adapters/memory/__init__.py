"""Tables in memory, over Polars."""
