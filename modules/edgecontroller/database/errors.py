"""What can be wrong with the cluster's database."""

from beehive.errors import BeehiveError


class DatabaseError(BeehiveError):
    """The database cannot be opened, read or written. Trying again may help: it may be away, or held by another."""
