"""The configuration keys of each service, and how they become the settings of the service."""
