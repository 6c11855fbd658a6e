"""How other packages ask metamanager: the only module of this package that they import.

`MetaClient` waits for its answer and is for worker actors, which may wait. `MetaTurnClient` never waits: it takes a
function that is called in its module's own turn, and is for code on a module's thread. Both put the same questions
(KubeEdge's metaclient, spec/05 §8):

    meta = MetaClient(hive)
    pods = meta.list_all(ResourceType.POD)
    secret = meta.get(ResourceType.SECRET, "default", "pull-secret")

    MetaTurnClient(self).create(ResourceType.NODE, "", node_name, node_json, then=self._registered)

Objects are JSON text, as bytes. Where an answer comes from is metamanager's affair: lists only from the store; pods,
configmaps and secrets by name from the store when it has them, else from the cloud; so are persistent volumes, their
claims, volume attachments and tokens, and the cloud is asked behind; leases, certificate signing requests and
everything that writes from the cloud only; nodes from the cloud, and while it cannot be reached from the store. See
`metamanager.rules`.

Every call raises, or hands to `then`, a `CallError`:

- `NotFoundError`: there is no such object; `status` is Kubernetes' metav1.Status;
- `AlreadyExistsError`, `ConflictError`, other `RejectedError`: the cloud refused, `status` says why;
- `NotConnectedError`: only the cloud could answer, and there is no connection: at once, not after a time-out;
- `NoAnswerError`: nobody answered before the deadline;
- `MalformedAnswerError`: the answer is of no known form.

`error.retryable` says whether the same call may succeed later. Nothing is tried again here.
"""

from collections.abc import Callable
from typing import TypeVar

from beehive import BeehiveError, Hive, Message, Module, ModuleName, ResourceType
from metamanager import answers, calls
from metamanager.calls import Call, Json
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
)

__all__ = [
    "AlreadyExistsError",
    "CallError",
    "ConflictError",
    "Json",
    "MalformedAnswerError",
    "MetaClient",
    "MetaTurnClient",
    "NoAnswerError",
    "NotConnectedError",
    "NotFoundError",
    "RejectedError",
    "Status",
]

T = TypeVar("T")

DEADLINE = 65.0
"""Seconds to wait for an answer: a little longer than metamanager waits for the cloud (60 s), so that its word on
why there is none comes before our own deadline."""


class MetaClient:
    """Asks and waits. For worker actors; a module's own thread must not wait (`MetaTurnClient`).

    Args:
        hive: where metamanager is.
        source: `route.source` of the questions. metamanager and the cloud know `edged`.
        seconds: deadline of each call.
    """

    def __init__(self, hive: Hive, *, source: str = ModuleName.EDGED, seconds: float = DEADLINE) -> None:
        self._hive = hive
        self._source = source
        self._seconds = seconds

    def get(self, kind: str, namespace: str, name: str) -> bytes:
        """One object. `namespace` is empty for what belongs to the cluster (node, persistentvolume).

        `ResourceType.PODPATCH` and `NODEPATCH` give the newest patch that was handed to `patch`, sent or not.
        """
        return self._ask(calls.get(kind, namespace, name))

    def list_all(self, kind: str, namespace: str = "") -> list[bytes]:
        """The stored objects of a kind, in one namespace or (empty) in all; never asks the cloud."""
        return self._ask(calls.list_all(kind, namespace))

    def create(self, kind: str, namespace: str, name: str, value: Json) -> bytes:
        """Create a node, a lease, a mirror pod, a certificate signing request; the object as the cloud has it."""
        return self._ask(calls.create(kind, namespace, name, value))

    def update(self, kind: str, namespace: str, name: str, value: Json) -> bytes | None:
        """Change an object. The cloud's new object for a lease, None for others.

        A lease goes to the cloud and back. Of others (podstatus, nodestatus, node, volumeattachment) metamanager keeps
        the newest, passes it on and says OK at once, connected or not.
        """
        return self._ask(calls.update(kind, namespace, name, value))

    def patch(self, kind: ResourceType, namespace: str, name: str, text: bytes | str) -> bytes:
        """Patch the status of a pod (`ResourceType.PODPATCH`) or a node (`NODEPATCH`) with a strategic merge patch.

        The object as the cloud has it now. The patch is kept in the store, also while there is no connection.
        """
        return self._ask(calls.patch(kind, namespace, name, text))

    def delete(self, kind: str, namespace: str, name: str, options: Json) -> None:
        """Delete an object in the cloud: a pod that has ended. `options` are metav1.DeleteOptions; for a pod its uid
        belongs in their preconditions. Its row here goes when the cloud's own delete message comes.
        """
        self._ask(calls.delete(kind, namespace, name, options))

    def token(self, namespace: str, service_account: str, request: Json) -> bytes:
        """An authentication.k8s.io TokenRequest with its status filled; without a connection one that was got for the
        same request and is still good.
        """
        return self._ask(calls.token(namespace, service_account, request))

    def _ask(self, call: Call[T]) -> T:
        message = call.message(self._hive.clock, self._source)
        try:
            answer = self._hive.request(ModuleName.METAMANAGER, message, self._seconds).get()
        except BeehiveError as error:
            raise answers.no_answer(error, call.resource) from error
        return call.read(answer)


class MetaTurnClient:
    """Asks and goes on: `then` gets the value or the `CallError`, in the module's turn.

    Args:
        module: on whose turn `then` is called; also the questions' source.
        seconds: deadline of each call.
    """

    def __init__(self, module: Module, *, seconds: float = DEADLINE) -> None:
        self._module = module
        self._seconds = seconds

    def get(self, kind: str, namespace: str, name: str, *, then: Callable[[bytes | CallError], None]) -> None:
        """As `MetaClient.get`."""
        self._ask(calls.get(kind, namespace, name), then)

    def pod(self, namespace: str, name: str, uid: str, *, then: Callable[[bytes | CallError], None]) -> None:
        """One pod. What the store does not know is asked of the cloud, and kept.

        `NotFoundError`, `ConflictError`: the cloud says that there is no pod of that name, or one of another uid.
        """
        self._ask(calls.pod(namespace, name, uid), then)

    def store_is_complete(self, *, then: Callable[[bool | CallError], None]) -> None:
        """Whether the store knows all pods that this node has: not when it is new, or was lost and made anew."""

        def answered(value: bytes | CallError) -> None:
            known = not isinstance(value, NotFoundError)
            then(value if isinstance(value, CallError) and known else known)

        self._ask(calls.store_is_complete(), answered)

    def note_complete(self, *, then: Callable[[CallError | None], None]) -> None:
        """From now on the store knows all pods that this node has."""
        self._ask(calls.note_complete(), lambda value: then(value if isinstance(value, CallError) else None))

    def list_all(self, kind: str, namespace: str = "", *, then: Callable[[list[bytes] | CallError], None]) -> None:
        """As `MetaClient.list_all`."""
        self._ask(calls.list_all(kind, namespace), then)

    def create(
        self, kind: str, namespace: str, name: str, value: Json, *, then: Callable[[bytes | CallError], None]
    ) -> None:
        """As `MetaClient.create`."""
        self._ask(calls.create(kind, namespace, name, value), then)

    def update(
        self, kind: str, namespace: str, name: str, value: Json, *, then: Callable[[bytes | CallError | None], None]
    ) -> None:
        """As `MetaClient.update`."""
        self._ask(calls.update(kind, namespace, name, value), then)

    def patch(
        self,
        kind: ResourceType,
        namespace: str,
        name: str,
        text: bytes | str,
        *,
        then: Callable[[bytes | CallError], None],
    ) -> None:
        """As `MetaClient.patch`."""
        self._ask(calls.patch(kind, namespace, name, text), then)

    def delete(
        self, kind: str, namespace: str, name: str, options: Json, *, then: Callable[[CallError | None], None]
    ) -> None:
        """As `MetaClient.delete`."""
        self._ask(calls.delete(kind, namespace, name, options), then)

    def token(
        self, namespace: str, service_account: str, request: Json, *, then: Callable[[bytes | CallError], None]
    ) -> None:
        """As `MetaClient.token`."""
        self._ask(calls.token(namespace, service_account, request), then)

    def record_event(self, namespace: str, name: str, event: Json, *, is_new: bool) -> None:
        """Have a v1 Event stored, and sent to the cloud if it is to have events; nobody answers.

        Later states of an event go as updates of the whole: a cloud that has missed the first takes them all the same,
        where a patch, as KubeEdge's edge sends it, would be refused.
        """
        call = calls.create if is_new else calls.update
        message = call(ResourceType.EVENT, namespace, name, event).message(self._module.clock, self._module.name)
        self._module.send(ModuleName.METAMANAGER, message)

    def _ask(self, call: Call[T], then: Callable[[T | CallError], None]) -> None:
        def answered(result: Message | BeehiveError) -> None:
            then(outcome(result))

        def outcome(result: Message | BeehiveError) -> T | CallError:
            if isinstance(result, BeehiveError):
                return answers.no_answer(result, call.resource)
            try:
                return call.read(result)
            except CallError as error:
                return error

        message = call.message(self._module.clock, self._module.name)
        self._module.request(ModuleName.METAMANAGER, message, self._seconds, answered)
