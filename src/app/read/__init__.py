"""Reading views: differences, latencies, and waiting for a watermark."""
