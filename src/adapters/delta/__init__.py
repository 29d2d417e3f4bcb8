"""Tables on Delta Lake."""
