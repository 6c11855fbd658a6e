"""Errors of the control socket."""

from beehive.errors import BeehiveError


class ControlError(BeehiveError):
    """The control socket cannot be used, or cloudcore refuses a request over it."""
