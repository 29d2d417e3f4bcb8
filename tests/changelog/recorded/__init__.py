"""Messages of Debezium, recorded from a real MariaDB and a real PostgreSQL by `record.py`, and the rows of the table in the end."""
