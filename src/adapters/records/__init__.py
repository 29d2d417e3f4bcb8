"""Decodes records into Arrow batches, in the same way for every source and engine."""
