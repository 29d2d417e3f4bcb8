"""Tables of a database, read through JDBC by Spark."""
