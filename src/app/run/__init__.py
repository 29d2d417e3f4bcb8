"""Running pipelines: epochs, replays, loads, moves, and publishing to sinks."""
