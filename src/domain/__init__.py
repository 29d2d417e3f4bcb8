"""The domain: what is computed and promised, with no engine in it."""
