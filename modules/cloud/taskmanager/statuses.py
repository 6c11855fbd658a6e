"""The status of a job, as KubeEdge's cloud writes it."""

from enum import StrEnum
from typing import Any

import msgspec

from beehive.decoding import convert
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.node_jobs import ImageResult


class JobPhase(StrEnum):
    """Phases of a job."""

    INIT = "Init"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILURE = "Failure"


class TaskPhase(StrEnum):
    """Phases of a job on one node."""

    PENDING = "Pending"
    """Not sent yet."""
    IN_PROGRESS = "InProgress"
    SUCCESSFUL = "Successful"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"
    """Timed out."""


FAILED = (TaskPhase.FAILURE, TaskPhase.UNKNOWN)
FINAL = (TaskPhase.SUCCESSFUL, *FAILED)


class ActionStatus(msgspec.Struct, omit_defaults=True):
    """An action that has ended on a node."""

    action: str = ""
    status: str = ""
    """True or False."""
    time: str = ""
    reason: str = ""


class NodeTask(msgspec.Struct, rename="camel", omit_defaults=True):
    """A job on one node."""

    node_name: str = ""
    phase: str = ""
    reason: str = ""
    action_flow: list[ActionStatus] = []
    image_status: list[ImageResult] = []
    current_version: str = ""
    historic_version: str = ""


class JobStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """The status of a job."""

    phase: str = ""
    reason: str = ""
    node_status: list[NodeTask] = []

    def to_json(self) -> JsonObject:
        """Return it as it is stored."""
        made: JsonObject = msgspec.to_builtins(self)
        return made


def read_status(value: Any) -> JobStatus:
    """Return a stored status; an empty one if there is none that can be read."""
    try:
        return convert(value or {}, JobStatus)
    except msgspec.ValidationError:
        return JobStatus()
