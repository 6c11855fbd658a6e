"""Tests of servicebus."""
