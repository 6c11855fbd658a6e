"""Tests of devicetwin."""
