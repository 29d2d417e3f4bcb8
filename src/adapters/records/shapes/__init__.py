"""Decodes chunks of JSON records by shapes learned from them; what fits no shape goes to the strict decoder."""
