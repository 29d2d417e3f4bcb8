"""The settings of a deployment, read from a TOML file or built by a program."""
