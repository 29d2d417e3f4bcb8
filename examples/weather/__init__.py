"""Real weather of four years (vega_datasets): monthly normals as versions."""
