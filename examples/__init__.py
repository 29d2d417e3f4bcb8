"""Example deployments; run each from the root of the project."""
