"""What keeps a trace from being replayed."""

from beehive import BeehiveError


class ReplayError(BeehiveError):
    """The trace cannot be replayed; the hint says what can be done."""
