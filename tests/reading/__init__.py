"""What readers of versions can use: labels, differences, waits, and errors before any row is read."""
