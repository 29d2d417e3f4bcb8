"""The application around the domain: configuration, wiring, running, the Python API and the command line."""
