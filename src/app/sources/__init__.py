"""The kinds of source and of bulk load that ship with Headwater, one in a file."""
