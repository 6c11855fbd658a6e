"""The requests that are served while the disk is full: reads, and writes that keep nodes alive or free room."""

from typing import Final

from modules.apimachinery.api_errors import ApiError
from modules.cloud.client.calls import DOCUMENT, ApiCall

READS: Final = ("get", "list", DOCUMENT)
_FREES: Final = ("delete", "deletecollection")
_UPDATE_STATUS: Final = "updatestatus"
_LEASES: Final = ("coordination.k8s.io/v1", "leases")
_OF_NODES: Final = (("v1", "nodes"), ("v1", "pods"))


class NoRoomError(ApiError):
    """507: the database or its disk is full."""

    code = 507


def refusal() -> ApiError:
    """Return the error for a write while the disk is full."""
    return NoRoomError("write", "database or disk is full: free room on the disk of cloudcore's database")


def is_vital(call: ApiCall) -> bool:
    """Return whether a call is made although the disk is full: a read, a Lease, the status of a node or pod, or a
    deletion. The reserve of the database has room for them.
    """
    resource = (call.api_version, call.plural)
    if call.verb in READS or call.verb in _FREES or resource == _LEASES:
        return True
    return resource in _OF_NODES and (call.subresource == "status" or call.verb == _UPDATE_STATUS)
