"""Tables: schemas, changes, merge rules and their meaning."""
