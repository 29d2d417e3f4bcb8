"""The domain: computations and guarantees, without any engine."""
