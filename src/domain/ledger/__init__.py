"""Publications and their snapshots, retention, and latency."""
