"""Errors of the connection to systemd's logind."""

from edged.errors import EdgedError


class BusError(EdgedError):
    """The system's message bus or logind failed or refused a call."""
