"""Tests of edgemesh."""
