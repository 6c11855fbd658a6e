"""Errors of backup and restore."""

from beehive.errors import BeehiveError


class BackupError(BeehiveError):
    """A backup that cannot be written, read or restored. Nothing was changed."""
