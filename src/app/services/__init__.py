"""The services by name: what each reads from the configuration, and how it is built, opened and checked."""
