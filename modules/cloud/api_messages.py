"""The messages between cloudcore's module `control` and the module that makes its API calls: `apiserver`, or with a
cluster edgecontroller.
"""

from enum import StrEnum
from typing import Final

MODULE: Final = "apiserver"
"""Name and group of the module that runs the embedded API server."""
SOURCE: Final = "control"
"""`route.source` of an administrator's requests."""
RESOURCE: Final = "cloudcore/objects"


class Verb(StrEnum):
    """`route.operation` of a message."""

    CALL = "call"
    """One of the Kubernetes API's verbs: an `ApiCall`, answered with an `ApiResult`."""
    CALLS = "calls"
    """`ApiCalls` of a module in the process, answered with a list of an `ApiResult` for each, or None for one that
    takes long and has to come again alone.
    """
    WATCH = "watch"
    """The beginning of a watch: a `WatchQuery`, answered with a `WatchStart`."""
    TOKEN_KEYS = "tokenkeys"  # noqa: S105 - no token
    """The public keys of service accounts' tokens, answered with `TokenKeys`."""
    TOKEN_OBJECTS = "tokenobjects"  # noqa: S105 - no token
    """The claims of a token, as `AccountClaims`; the answer: whether it is void."""
    CHANGED_ELSEWHERE = "changedelsewhere"
    """Of the embedded API server to edgecontroller: another cloudcore may have changed their database."""
    CHANGED = "changed"
    """Of edgecontroller to devicecontroller: changed Devices and DeviceModels of a cluster, as `ObjectChanges`."""
