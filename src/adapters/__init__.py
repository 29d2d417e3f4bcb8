"""The adapters: engines, table formats and sources behind the domain's ports."""
