"""Errors of traces; each says which file, where in it, and what to do."""

from beehive.errors import BeehiveError


class TraceError(BeehiveError):
    """A trace cannot be read or written."""
