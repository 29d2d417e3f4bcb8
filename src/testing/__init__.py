"""What proves a backend, and what specifications are written with.

The contracts are `store_contract`, `engine_contract` and `query_contract`; the steps stand in `steps`.
"""
