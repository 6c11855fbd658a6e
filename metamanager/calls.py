"""The requests to metamanager as values. `metamanager.client` sends them, blocking or not."""

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from beehive import Clock, Group, Message, Operation, Resource, ResourceType
from metamanager import answers

T = TypeVar("T")

COMPLETE: Final = {"metadata": {"name": "complete"}}
"""Content of the note that the store contains all pods of this node."""

Json = bytes | msgspec.Raw | dict[str, Any] | msgspec.Struct
"""An object: JSON text as bytes or Raw, or a value for msgspec to encode."""


class Call(NamedTuple, Generic[T]):
    """One request and the function that reads its answer."""

    operation: Operation
    resource: str
    content: msgspec.Raw | str | None
    read: Callable[[Message], T]
    """Returns the value of the answer; raises `CallError`."""

    def message(self, clock: Clock, source: str) -> Message:
        """Return the request's message (KubeEdge's metaclient: source edged, group meta)."""
        return Message.new(
            clock,
            source=source,
            group=Group.META,
            resource=self.resource,
            operation=self.operation,
            content=self.content,
        )


def get(kind: str, namespace: str, name: str) -> Call[bytes]:
    """Get one object."""
    return Call(Operation.QUERY, _resource(kind, namespace, name), None, answers.read_object)


def pod(namespace: str, name: str, uid: str) -> Call[bytes]:
    """Get the pod of that uid; from the cloud if the store lacks the name."""
    resource = _resource(ResourceType.POD, namespace, name)
    return Call(Operation.QUERY, resource, _json({"metadata": {"uid": uid}}), answers.read_object)


def store_is_complete() -> Call[bytes]:
    """Get the note that the store contains all pods of this node; missing if it is new or was lost."""
    return Call(Operation.QUERY, _COMPLETE, None, answers.read_object)


def note_complete() -> Call[bytes | None]:
    """Store the note that the store contains all pods of this node."""
    return Call(Operation.UPDATE, _COMPLETE, _json(COMPLETE), answers.read_object_or_ok)


def list_all(kind: str, namespace: str = "") -> Call[list[bytes]]:
    """List the stored objects of a type, of one namespace or of all."""

    def read(answer: Message) -> list[bytes]:
        return answers.in_namespace(answers.read_objects(answer), namespace)

    return Call(Operation.QUERY, _resource(kind, namespace), None, read)


def create(kind: str, namespace: str, name: str, value: Json) -> Call[bytes]:
    """Create an object in the cloud."""
    return Call(Operation.INSERT, _resource(kind, namespace, name), _json(value), answers.read_object)


def update(kind: str, namespace: str, name: str, value: Json) -> Call[bytes | None]:
    """Change an object in the cloud."""
    return Call(Operation.UPDATE, _resource(kind, namespace, name), _json(value), answers.read_object_or_ok)


def patch(kind: ResourceType, namespace: str, name: str, text: bytes | str) -> Call[bytes]:
    """Patch an object's status in the cloud; the patch travels as a JSON string, as KubeEdge's do."""
    plain = text if isinstance(text, str) else text.decode()
    return Call(Operation.PATCH, _resource(kind, namespace, name), plain, answers.read_object)


def delete(kind: str, namespace: str, name: str, options: Json) -> Call[None]:
    """Delete an object in the cloud."""
    return Call(Operation.DELETE, _resource(kind, namespace, name), _json(options), answers.read_ok)


def token(namespace: str, service_account: str, request: Json) -> Call[bytes]:
    """Request a service account token."""
    resource = _resource(ResourceType.SERVICE_ACCOUNT_TOKEN, namespace, service_account)
    return Call(Operation.QUERY, resource, _json(request), answers.read_object)


_COMPLETE: Final = str(Resource.of(ResourceType.STORE, "", "complete"))


def _resource(kind: str, namespace: str, name: str = "") -> str:
    return str(Resource.of(kind, namespace, name))


def _json(value: Json) -> msgspec.Raw:
    if isinstance(value, msgspec.Raw):
        return value
    return msgspec.Raw(value if isinstance(value, bytes) else msgspec.json.encode(value))
