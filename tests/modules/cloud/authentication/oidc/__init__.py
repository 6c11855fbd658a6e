"""Tests of the users of an identity provider."""
