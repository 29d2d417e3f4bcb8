"""Reads one TOML file: keys with their lines, types and defaults, and overrides from the environment."""
