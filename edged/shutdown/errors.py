"""What can go wrong between the node and the machine's own manager."""

from edged.errors import EdgedError


class BusError(EdgedError):
    """The system's message bus, or who answers on it, did not do what was asked."""
