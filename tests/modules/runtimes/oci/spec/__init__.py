"""Tests of `modules/runtimes/oci/spec`."""
