"""Tests of the fleet in words."""
