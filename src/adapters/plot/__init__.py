"""Draws curves: into PNG and SVG files with Matplotlib, and as text in a terminal."""
