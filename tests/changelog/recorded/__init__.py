"""Messages of Debezium, recorded from a real MariaDB by `record.py`, and the rows of the table in the end."""
