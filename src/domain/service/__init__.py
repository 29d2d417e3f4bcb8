"""The services, and what they share."""
