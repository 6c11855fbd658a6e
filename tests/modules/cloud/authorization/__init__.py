"""Tests of what nodes may do."""
