"""Changelogs of databases: messages of Maxwell, Debezium and Canal, decoded into rows with row kinds."""
