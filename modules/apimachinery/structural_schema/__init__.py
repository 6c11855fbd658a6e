"""Structural schemas of CustomResourceDefinitions: their rules, and pruning, defaulting and validation of values."""
