"""Measurements, as ratios inside one run; absolute times are a machine's own."""
