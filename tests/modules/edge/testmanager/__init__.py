"""Tests of testmanager."""
