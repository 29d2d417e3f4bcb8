"""Backends that are found by name through entry points."""
