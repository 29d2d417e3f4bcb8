"""Delta Lake without a JVM: Polars reads and writes the data files, and this process follows the log."""
