"""Tests of metamanager."""
