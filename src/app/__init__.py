"""The shell around the domain: configuration, wiring, running, and the ways in."""
