"""Tests of the identities of nodes, users and tokens."""
