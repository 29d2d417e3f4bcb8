"""Epochs, their offsets and batches, and watermarks."""
