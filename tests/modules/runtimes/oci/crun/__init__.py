"""Tests of the driver of crun and conmon."""
