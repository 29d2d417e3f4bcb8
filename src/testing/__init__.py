"""Test support: the contract suites for a backend, and the pytest-bdd steps for specifications.

The contracts are in `store_contract`, `engine_contract` and `query_contract`, the steps in `steps`.
"""
