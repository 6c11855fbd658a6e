"""Tests of `edgecore devices`."""
