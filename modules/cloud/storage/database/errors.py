"""The error of the cluster's database."""

from beehive.errors import BeehiveError


class DatabaseError(BeehiveError):
    """The database cannot be opened, read or written; perhaps only now, when it is unreachable or locked."""
