"""Spark's SQL for DuckDB: types as Spark gives them, each function by what Spark answers, all else refused."""
