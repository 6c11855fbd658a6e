"""Tests of `modules.cli`."""
