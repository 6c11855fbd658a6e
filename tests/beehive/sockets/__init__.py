"""Tests of `beehive.sockets`."""
