"""The client of metamanager: the only module of this package that other packages import.

`MetaClient` blocks until the answer, and serves worker actors, which only read. `AsyncMetaClient` never blocks, and
serves code on a module's thread: it takes a function to call with the answer. Both send KubeEdge's metaclient's
requests (docs/protocol.md, "Forms of answers"):

    meta = MetaClient(hive)
    pods = meta.list_all(ResourceType.POD)
    secret = meta.get(ResourceType.SECRET, "default", "pull-secret")

    AsyncMetaClient(self).create(ResourceType.NODE, "", node_name, node_json, then=self._registered)

Objects are JSON text, as bytes. metamanager decides where an answer comes from (`metamanager.rules`):

- lists: only from the store;
- pods, configmaps and secrets by name: from the store if it has them, else from the cloud;
- persistent volumes, their claims, volume attachments and tokens: likewise, with a refresh from the cloud;
- nodes: from the cloud, and without a connection from the store;
- leases, certificate signing requests and all writes: only from the cloud.

Every call raises, or passes to `then`, a `CallError`:

- `NotFoundError`: the object does not exist; `status` is Kubernetes' metav1.Status;
- `AlreadyExistsError`, `ConflictError`, other `RejectedError`: the cloud refused, with the reason in `status`;
- `NotConnectedError`: only the cloud can answer, and there is no connection; raised immediately, not after a time-out;
- `NoAnswerError`: no answer before the deadline;
- `MalformedAnswerError`: the answer has an unknown form.

`error.retryable` tells whether the same call may succeed later. The client retries nothing.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from beehive import BeehiveError, Clock, Group, Hive, Message, Module, ModuleName, Operation, Resource, ResourceType
from metamanager import answers
from metamanager.errors import (
    AlreadyExistsError,
    CallError,
    ConflictError,
    MalformedAnswerError,
    NoAnswerError,
    NotConnectedError,
    NotFoundError,
    RejectedError,
    Status,
    is_gone,
)

__all__ = [
    "COMPLETE",
    "DEADLINE",
    "AlreadyExistsError",
    "AsyncMetaClient",
    "Call",
    "CallError",
    "ConflictError",
    "Json",
    "MalformedAnswerError",
    "MetaClient",
    "NoAnswerError",
    "NotConnectedError",
    "NotFoundError",
    "RejectedError",
    "Status",
    "completeness_call",
    "get_call",
    "is_gone",
    "list_all_call",
    "pod_call",
    "record_completeness",
]

T = TypeVar("T")

DEADLINE = 65.0
"""Seconds to wait for an answer: longer than metamanager waits for the cloud (60 s), so that its error, with the
reason, arrives before this deadline."""

COMPLETE: Final = {"metadata": {"name": "complete"}}
"""Content of the note that the store contains all pods of this node."""

Json = bytes | msgspec.Raw | dict[str, Any] | msgspec.Struct
"""An object: JSON text as bytes or Raw, or a value for msgspec to encode."""


class Call(msgspec.Struct, Generic[T], frozen=True):
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


def get_call(kind: str, namespace: str, name: str) -> Call[bytes]:
    """Get one object."""
    return Call(Operation.QUERY, _resource(kind, namespace, name), None, answers.read_object)


def pod_call(namespace: str, name: str, uid: str) -> Call[bytes]:
    """Get the pod of that uid; from the cloud if the store lacks the name."""
    resource = _resource(ResourceType.POD, namespace, name)
    return Call(Operation.QUERY, resource, _json({"metadata": {"uid": uid}}), answers.read_object)


def completeness_call() -> Call[bytes]:
    """Get the note that the store contains all pods of this node; missing if it is new or was lost."""
    return Call(Operation.QUERY, _COMPLETE, None, answers.read_object)


def record_completeness() -> Call[bytes | None]:
    """Store the note that the store contains all pods of this node."""
    return Call(Operation.UPDATE, _COMPLETE, _json(COMPLETE), answers.read_object_or_ok)


def list_all_call(kind: str, namespace: str = "") -> Call[list[bytes]]:
    """List the stored objects of a type, of one namespace or of all."""

    def read(answer: Message) -> list[bytes]:
        return answers.in_namespace(answers.read_objects(answer), namespace)

    return Call(Operation.QUERY, _resource(kind, namespace), None, read)


_COMPLETE: Final = str(Resource.of(ResourceType.STORE, "", "complete"))


def _resource(kind: str, namespace: str, name: str = "") -> str:
    return str(Resource.of(kind, namespace, name))


def _json(value: Json) -> msgspec.Raw:
    if isinstance(value, msgspec.Raw):
        return value
    return msgspec.Raw(value if isinstance(value, bytes) else msgspec.json.encode(value))


class MetaClient:
    """A client of metamanager that blocks until the answer; for worker actors. A module's thread uses
    `AsyncMetaClient`.

    Args:
        hive: of metamanager.
        seconds: deadline of each call.
    """

    def __init__(self, hive: Hive, *, seconds: float = DEADLINE) -> None:
        self._hive = hive
        self._seconds = seconds

    def get(self, kind: str, namespace: str, name: str) -> bytes:
        """Return one object; `namespace` is empty for cluster-scoped ones (node, persistentvolume).

        `ResourceType.PODPATCH` and `NODEPATCH` return the newest patch given to `patch`, sent or not.
        """
        return self._ask(get_call(kind, namespace, name))

    def list_all(self, kind: str, namespace: str = "") -> list[bytes]:
        """Return the stored objects of a type, in one namespace or (empty) in all; never asks the cloud."""
        return self._ask(list_all_call(kind, namespace))

    def token(self, namespace: str, service_account: str, request: Json) -> bytes:
        """Return an authentication.k8s.io TokenRequest with its status; without a connection, a stored one for an equal
        request that is still valid.
        """
        resource = _resource(ResourceType.SERVICE_ACCOUNT_TOKEN, namespace, service_account)
        return self._ask(Call(Operation.QUERY, resource, _json(request), answers.read_object))

    def _ask(self, call: Call[T]) -> T:
        message = call.message(self._hive.clock, ModuleName.EDGED)
        try:
            answer = self._hive.request(ModuleName.METAMANAGER, message, self._seconds).get()
        except BeehiveError as error:
            raise answers.no_answer(error, call.resource) from error
        return call.read(answer)


class AsyncMetaClient:
    """A client of metamanager that does not block: `then` is called with the value or the `CallError`, on the module's
    thread.

    Args:
        module: the caller; its name is the source of the requests.
        seconds: deadline of each call.
    """

    def __init__(self, module: Module, *, seconds: float = DEADLINE) -> None:
        self._module = module
        self._seconds = seconds

    def get(self, kind: str, namespace: str, name: str, *, then: Callable[[bytes | CallError], None]) -> None:
        """As `MetaClient.get`."""
        self._ask(get_call(kind, namespace, name), then)

    def pod(self, namespace: str, name: str, uid: str, *, then: Callable[[bytes | CallError], None]) -> None:
        """Get one pod, from the cloud if it is not stored; the store then keeps it.

        `is_gone` tells whether a refusal means that no pod of that uid exists.
        """
        self._ask(pod_call(namespace, name, uid), then)

    def store_is_complete(self, *, then: Callable[[bool | CallError], None]) -> None:
        """Get whether the store contains all pods of this node: not if it is new, or was lost and made again."""

        def answered(value: bytes | CallError) -> None:
            known = not isinstance(value, NotFoundError)
            then(value if isinstance(value, CallError) and known else known)

        self._ask(completeness_call(), answered)

    def record_complete(self, *, then: Callable[[CallError | None], None]) -> None:
        """Note that the store contains all pods of this node from now on."""
        self._ask(record_completeness(), lambda value: then(value if isinstance(value, CallError) else None))

    def list_all(self, kind: str, namespace: str = "", *, then: Callable[[list[bytes] | CallError], None]) -> None:
        """As `MetaClient.list_all`."""
        self._ask(list_all_call(kind, namespace), then)

    def create(
        self, kind: str, namespace: str, name: str, value: Json, *, then: Callable[[bytes | CallError], None]
    ) -> None:
        """Create a node, lease, mirror pod or certificate signing request; `then` gets the cloud's object."""
        self._ask(Call(Operation.INSERT, _resource(kind, namespace, name), _json(value), answers.read_object), then)

    def update(
        self, kind: str, namespace: str, name: str, value: Json, *, then: Callable[[bytes | CallError | None], None]
    ) -> None:
        """Change an object; `then` gets the cloud's new object for a lease, None for others.

        A lease needs the cloud's answer. For the others (podstatus, nodestatus, node, volumeattachment) metamanager
        stores the newest, forwards it and answers OK immediately, connected or not.
        """
        resource = _resource(kind, namespace, name)
        self._ask(Call(Operation.UPDATE, resource, _json(value), answers.read_object_or_ok), then)

    def patch(
        self,
        kind: ResourceType,
        namespace: str,
        name: str,
        text: bytes | str,
        *,
        then: Callable[[bytes | CallError], None],
    ) -> None:
        """Patch the status of a pod (`ResourceType.PODPATCH`) or node (`NODEPATCH`) by a strategic merge patch, which
        travels as a JSON string, as KubeEdge's do.

        `then` gets the cloud's patched object. The store keeps the patch, even without a connection.
        """
        plain = text if isinstance(text, str) else text.decode()
        self._ask(Call(Operation.PATCH, _resource(kind, namespace, name), plain, answers.read_object), then)

    def delete(
        self, kind: str, namespace: str, name: str, options: Json, *, then: Callable[[CallError | None], None]
    ) -> None:
        """Delete an object in the cloud: a pod that has ended. `options` are metav1.DeleteOptions, for a pod with its
        uid in the preconditions. The stored row goes when the cloud's delete message arrives.
        """
        self._ask(Call(Operation.DELETE, _resource(kind, namespace, name), _json(options), answers.read_ok), then)

    def record_event(self, namespace: str, name: str, event: Json, *, is_new: bool) -> None:
        """Store a v1 Event and, if events are reported, send it to the cloud; there is no answer.

        Later states of an event are updates with the whole event: a cloud that has missed the first accepts them, where
        it would refuse a patch, KubeEdge's form.
        """
        operation = Operation.INSERT if is_new else Operation.UPDATE
        call = Call(operation, _resource(ResourceType.EVENT, namespace, name), _json(event), answers.read_object_or_ok)
        message = call.message(self._module.clock, self._module.name)
        self._module.send(ModuleName.METAMANAGER, message)

    def _ask(self, call: Call[T], then: Callable[[T | CallError], None]) -> None:
        def answered(result: Message | BeehiveError) -> None:
            found: T | CallError
            try:
                found = call.read(result) if isinstance(result, Message) else answers.no_answer(result, call.resource)
            except CallError as error:
                found = error
            then(found)

        message = call.message(self._module.clock, self._module.name)
        self._module.request(ModuleName.METAMANAGER, message, self._seconds, answered)
