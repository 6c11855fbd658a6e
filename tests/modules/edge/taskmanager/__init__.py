"""Tests of taskmanager."""
