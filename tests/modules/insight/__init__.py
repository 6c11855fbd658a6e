"""Tests of `modules.insight`."""
