"""Deployments to learn from; each runs from the project's root."""
