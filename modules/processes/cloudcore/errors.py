"""Errors of the control socket."""

from beehive.errors import BeehiveError


class ControlError(BeehiveError):
    """The control socket cannot be used, or cloudcore refuses a request over it."""


class ApiRefusedError(ControlError):
    """The API server refuses a request over the control socket; the hint is its reason."""
