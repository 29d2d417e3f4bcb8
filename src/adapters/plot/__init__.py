"""Curves as pictures: files of Matplotlib's, and texts for a terminal."""
