"""What proves a backend (`store_contract`, `engine_contract`, `query_contract`), and what specifications are written with (`steps`)."""
