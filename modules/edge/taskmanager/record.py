"""The job under way and those that wait for its end, as the node's store has them: a restart goes on from there."""

from typing import Any

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.node_jobs import Action, ActionReport, JobAddress


class JobRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A job and how far it is."""

    resource: str
    """As in its messages."""
    spec: Any
    """The content of the message."""
    action: Action
    """The action that has begun, or whose confirmation is waited for."""
    reports: tuple[ActionReport, ...] = ()
    """What has been reported, in order."""
    is_waiting: bool = False
    """Whether it waits for a confirmation on the node."""
    following: tuple["JobRecord", ...] = ()
    """Of the one under way, those that begin after it, in order."""

    @property
    def address(self) -> JobAddress:
        """The job, on this node. Raises ValueError for a record that is none."""
        found = JobAddress.read(self.resource)
        if found is None:
            raise ValueError(f"no job: {self.resource[:200]!r}")
        return found


def read_record(row: bytes) -> JobRecord | None:
    """Decode a stored row; None if it cannot be decoded."""
    try:
        record = decode_json(row, JobRecord)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return record if all(JobAddress.read(each.resource) for each in (record, *record.following)) else None
