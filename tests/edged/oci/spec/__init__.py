"""Tests of `edged/oci/spec`."""
