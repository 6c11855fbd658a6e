"""Devices and DeviceModels that the cloud's list of the node's devices lacks.

The cloud has a record of the objects of each node. It loses the record with the Node object: then it does not tell the
node of deletions. Its list may lack an object that is newer, so the node only asks about it, and the cloud, which reads
the object, sends the deletion. A KubeEdge cloud gives no list.
"""

from typing import Final, NamedTuple

import msgspec

from beehive import Module, Operation, Resource, ResourceType
from metamanager.errors import CallError
from metamanager.remote_query import Question
from metamanager.repeated_queries import RepeatedQueries
from modules.apimachinery.device_objects import ObjectMetadata

_SECONDS: Final = 60.0
"""Seconds for an answer of the cloud."""


class AbsentObject(NamedTuple):
    """An object that the list lacks."""

    type: ResourceType
    id: str
    """`namespace/name`."""
    metadata: ObjectMetadata


def absent_queries(module: Module) -> RepeatedQueries[AbsentObject]:
    """Return devicetwin's queries about absent objects."""
    return RepeatedQueries(module, _SECONDS, _question_about, _decided)


def _question_about(absent: AbsentObject) -> Question:
    namespace, _, name = absent.id.partition("/")
    known = absent.metadata
    head = {
        "uid": known.uid,
        "creationTimestamp": known.creation_timestamp,
        "resourceVersion": known.resource_version or "",
    }
    resource = str(Resource.of(absent.type, namespace, name))
    return Question(resource, Operation.QUERY, msgspec.json.encode({"metadata": head}).decode())


def _decided(_absent: AbsentObject, _refusal: CallError | None) -> None:
    """Do nothing: the cloud sends the deletion of an object that is gone."""
