"""The services, and the modules that they share."""
