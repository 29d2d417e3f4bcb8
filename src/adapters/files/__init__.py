"""A directory of files as a stream: new names are new epochs."""
