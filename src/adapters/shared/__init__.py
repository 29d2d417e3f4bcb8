"""Code shared by the adapters of several table formats and sources."""
