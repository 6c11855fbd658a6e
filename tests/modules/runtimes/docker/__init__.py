"""Tests of Docker Engine behind the CRI server."""
