"""Tests of images of the OCI runtime."""
