"""Errors of traces."""

from beehive.errors import BeehiveError


class TraceError(BeehiveError):
    """A trace cannot be read or written; the text names the file, the place in it, and a remedy."""
