"""The errors of the cluster's database."""

from beehive.errors import BeehiveError


class DatabaseError(BeehiveError):
    """The database cannot be opened, read or written; perhaps only now, when it is unreachable or locked."""


class FullError(DatabaseError):
    """A transaction cannot be committed because the database or its disk is full; nothing of it remains there."""
