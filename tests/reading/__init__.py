"""What readers of versions are offered: labels, differences, waits, and being told in time."""
