"""Mutation testing of the code that decides: `python -m tests.mutants`, see docs/testing.md."""
