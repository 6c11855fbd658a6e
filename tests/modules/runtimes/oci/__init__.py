"""Tests of the OCI container runtime."""
