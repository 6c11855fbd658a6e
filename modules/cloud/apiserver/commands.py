"""The messages between cloudcore's module `control` and edgecontroller, which runs the API server."""

from enum import StrEnum

SOURCE = "control"
"""`route.source` of an administrator's requests, and the group that receives all changes of objects."""
RESOURCE = "cloudcore/objects"


class Verb(StrEnum):
    """`route.operation` of a message."""

    CALL = "call"
    """One of the Kubernetes API's verbs: an `ApiCall`, answered with an `ApiResult`."""
    WATCH = "watch"
    """The beginning of a watch: a `WatchQuery`, answered with a `WatchStart`."""
    CHANGED = "changed"
    """To `control`: the changed objects of a transaction, as `ObjectChanges`."""
