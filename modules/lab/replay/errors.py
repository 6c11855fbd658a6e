"""Errors of a replay."""

from beehive import BeehiveError


class ReplayError(BeehiveError):
    """The trace cannot be replayed; the hint tells the user how to go on."""
