"""What the owner of a node asks taskmanager, through the owner's socket."""

from enum import StrEnum
from typing import Final

import msgspec

from modules.edge.taskmanager.record import JobRecord

OWNER: Final = "owner"
"""`route.source` of the owner's requests, which come from no link."""
RESOURCE: Final = "taskmanager/job"


class OwnerVerb(StrEnum):
    """`route.operation` of a request; the answer is a `JobShown`."""

    SHOW = "show"
    CONFIRM = "confirm"


class JobShown(msgspec.Struct, frozen=True, rename="camel"):
    """The job under way."""

    resource: str = ""
    """Empty without one; after a confirmation, if none has waited for it."""
    action: str = ""
    is_waiting: bool = False

    @classmethod
    def of(cls, job: JobRecord | None) -> "JobShown":
        """Return the owner's view of a job, or of none."""
        return cls() if job is None else cls(job.resource, job.action, job.is_waiting)
