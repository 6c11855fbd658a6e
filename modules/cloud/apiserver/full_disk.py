"""The requests that are served while the disk is full: reads, and writes that keep nodes alive or free room."""

import logging
from typing import Final

from beehive.clock import Clock
from modules.apimachinery.api_errors import ApiError
from modules.cloud.client.calls import DOCUMENT, ApiCall
from modules.cloud.storage.database.database import Database

_log = logging.getLogger(__name__)

FULL_SECONDS: Final = 5.0
"""Seconds after which it is looked whether a full disk has room again."""

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


class DiskRoom:
    """The room on the disk: whether writes that can wait are refused, because there was no room for one.

    Args:
        database: on the disk.
        clock: the time.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._monotonic = clock.monotonic
        self._full_until = -FULL_SECONDS
        """Monotonic seconds until which a commit that has found no room counts."""

    @property
    def is_full(self) -> bool:
        """Whether such writes are refused."""
        return self._database.room.is_short or self._monotonic() < self._full_until

    def record_full(self) -> None:
        """Note that a commit has found no room."""
        self._full_until = self._monotonic() + FULL_SECONDS

    def make_reserve(self) -> None:
        """Make the reserve of a disk that was full, if there is room again."""
        if self._database.room.fill():
            _log.warning("%s: there is room on the disk again", self._database.where)
