"""Errors of upgrades."""

from beehive.errors import BeehiveError


class UpgradeError(BeehiveError):
    """An upgrade that was refused, failed or was taken back."""
