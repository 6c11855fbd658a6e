"""The list of this node's pods, asked of the cloud when what it pushes may not be all that there is to know.

KubeEdge's cloud does not send again what an edge has acknowledged, not even to one that has lost its database; it drops
what is bound to a node before that has registered; and it forgets, with the Node object, which pods a node has, so that
their deletion is never told. But that cloud's dynamiccontroller carries out requests of the Kubernetes API, in the form
in which the edge's metaserver puts them, and a kubelet's own first request is this list: the pods whose
`spec.nodeName` is its node. It is asked when the cloud can be reached (again), and some seconds after the node has
registered anew.

Each pod of the list is taken as if the cloud had pushed it. None is taken away for not being in it: list and pushes
come in two streams without an order between them, so a pod that is missing may be newer than the list. What is missing
in a complete list is asked for one by one (`metamanager.absent_pods`). A pod that is deleted while the list is under
way is not taken from it, nor one whose name a newer pod has by now. The request names no resourceVersion, so that the
API server answers from its newest state: what was deleted before it was sent cannot be in the list.

In KubeEdge dynamicController is switched off unless somebody switches it on; then nobody answers. It is asked a few
times within about two hours, and after that when the node registers anew or the process starts again.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from beehive import BeehiveError, Group, Message, Module, ModuleName, Operation, Resource, ResourceType, Timer
from metamanager import answers, effects
from metamanager.application import Application, Progress, Target, Verb, application, message_of
from metamanager.batch import Outcome
from metamanager.effects import Effect
from metamanager.errors import CallError, MalformedAnswerError, NoAnswerError, StoreError
from metamanager.rows import Cause, Metadata, head_of, row_of, version_number
from metamanager.store import Store

_log = logging.getLogger(__name__)

TRIES: Final = 7
"""How often a cloud that gives no list is asked while the process lives."""
FIRST_DELAY: Final = 60.0
"""Seconds from the first of them to the second; doubles."""
SOON: Final = 10.0
"""Seconds after which what has failed on this side is tried again."""
LEAST_APART: Final = 30.0
"""Seconds that are at least between two lists that only reconnections ask for."""
BYTES_A_SECOND: Final = 2000
"""What such lists take of a thin link, which must not carry all pods each time it comes back: for 110 pods of 6 kB, one
in five and a half minutes.
"""
AFTER_REGISTRATION: Final = 5.0
"""Seconds after the node has registered anew: until KubeEdge's cloud has taken notice of the node it drops its pods."""

_CAUSE: Final = "listed by the cloud"
"""Cause of what comes so, in the history."""
_PODS: Final = Target("", "v1", "pods")
_ATTEMPT: Final = "get the list of this node's pods from the cloud"


class ListedPod(NamedTuple):
    """A pod of the list."""

    key: str
    """Under which it is stored."""
    head: Metadata
    text: bytes
    """It itself, as it came."""


class Listed(NamedTuple):
    """A list."""

    pods: list[ListedPod]
    complete: bool
    """Whether it leaves none out."""
    size: int
    """Bytes."""


class PodList:
    """See the module's docstring.

    Args:
        module: whose turns these are.
        store: what the list is put into.
        node: name of this node.
        seconds: how long the cloud has for the answer.
        taken: takes what the list has come to, once it is in the store.
        failed: told why the store could not be read or changed; it is tried again.
        complete: told the uids of all pods in a list that leaves none out, when the link held meanwhile.
    """

    def __init__(
        self,
        module: Module,
        store: Store,
        node: str,
        seconds: float,
        *,
        taken: Callable[[Outcome], None],
        failed: Callable[[StoreError], None],
        complete: Callable[[frozenset[str]], None],
    ) -> None:
        self._module = module
        self._store = store
        self._node = node
        self._seconds = seconds
        self._taken = taken
        self._failed = failed
        self._complete = complete
        self._connected = False
        self._interrupted = False
        """Whether the link ended while the list was under way."""
        self._under_way = False
        self._pause: Timer | None = None
        self._due_at: float | None = None
        """When it is to be asked for, in monotonic seconds; None: there is no need."""
        self._spared_until = float("-inf")
        """When a reconnection may ask for the next one."""
        self._tries = TRIES
        self._delay = FIRST_DELAY
        self._deleted: set[tuple[str, str]] = set()
        """Keys and uids of what was deleted while the list is under way; without a uid: whichever it was."""

    def connection_changed(self, *, connected: bool) -> None:
        """The cloud can be reached, or cannot."""
        self._connected = connected
        self._interrupted = self._interrupted or not connected
        if connected:
            self._want(max(self._module.clock.monotonic(), self._spared_until))

    def registered(self) -> None:
        """The cloud has a Node object for this node that it did not have before."""
        self._tries = max(1, self._tries)
        self._want(self._module.clock.monotonic() + AFTER_REGISTRATION)

    def deleted(self, key: str, uid: str) -> None:
        """The cloud has deleted an object."""
        if self._under_way:
            self._deleted.add((key, uid))

    def _want(self, at: float) -> None:
        """Another list is needed then; one that is under way may be too old."""
        self._due_at = at if self._due_at is None or self._under_way else min(at, self._due_at)
        self._ask()

    def _ask(self) -> None:
        """Ask, when it is time and there is need."""
        if not self._connected or self._under_way or self._due_at is None or not self._tries:
            return
        wait = self._due_at - self._module.clock.monotonic()
        if wait > 0:
            self._later(wait)
            return
        self._under_way, self._interrupted, self._due_at = True, False, None
        self._deleted.clear()
        request = message_of(request_of(self._node), self._module.clock)
        self._module.request(ModuleName.EDGEHUB, request, self._seconds, self._answered)

    def _answered(self, result: Message | BeehiveError) -> None:
        self._under_way = False
        try:
            if not isinstance(result, Message):
                raise NoAnswerError(_ATTEMPT, self._node, str(result), retryable=True)
            listed = pods_in(result, self._node)
        except CallError as error:
            own = isinstance(result, Message) and answers.is_from_hub(result)
            if own and error.retryable:
                self._again(SOON)
            else:
                self._not_given(error)
            return
        try:
            outcome = self._put(result, listed.pods)
        except StoreError as error:
            self._again(SOON)
            self._failed(error)
            return
        self._given(outcome, listed)

    def _given(self, outcome: Outcome, listed: Listed) -> None:
        self._tries, self._delay = TRIES, FIRST_DELAY
        self._spared_until = self._module.clock.monotonic() + max(LEAST_APART, listed.size / BYTES_A_SECOND)
        self._taken(outcome)
        if listed.complete and not self._interrupted:
            self._complete(frozenset(pod.head.uid or "" for pod in listed.pods))
        self._ask()

    def _put(self, answer: Message, pods: list[ListedPod]) -> Outcome:
        """What is no older than the store's goes to edged, changed or not: an earlier try may have got so far and no
        further, and edged does nothing for a state that it has.
        """
        news: list[Effect] = []
        now, cause = self._module.clock.now_ms(), Cause(_CAUSE, answer.id)
        for pod in pods:
            if self._is_overtaken(pod) or not may_replace(pod, self._store.get(pod.key)):
                continue
            if self._store.put(row_of(pod.key, pod.text, now, cause)):
                news.append(effects.to_edged(self._as_pushed(pod)))
        _log.info("the cloud's list of this node's pods has been taken: %d in it, %d of use", len(pods), len(news))
        return Outcome(news, changed=True, otherwise=self._not_durable)

    def _is_overtaken(self, pod: ListedPod) -> bool:
        return not self._deleted.isdisjoint({(pod.key, pod.head.uid or ""), (pod.key, "")})

    def _as_pushed(self, pod: ListedPod) -> Message:
        source, version = ModuleName.EDGECONTROLLER, pod.head.resource_version or ""
        content = msgspec.Raw(pod.text)
        return self._module.message(
            pod.key, Operation.UPDATE, content, source=source, group=Group.RESOURCE, resourceversion=version
        )

    def _not_given(self, error: CallError) -> None:
        if self._tries == TRIES:
            _log.warning(
                "the cloud gives no list of this node's pods (is its dynamicController switched on?); one that it has "
                "not pushed may not come before it changes, and one that it has forgotten does not end: %s",
                error,
            )
        self._tries -= 1
        self._again(self._delay)
        self._delay *= 2

    def _not_durable(self) -> list[Effect]:
        self._again(SOON)
        return []

    def _again(self, seconds: float) -> None:
        """What was asked for is still needed, and not before then."""
        self._due_at = self._module.clock.monotonic() + seconds
        self._ask()

    def _later(self, seconds: float) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._module.after(seconds, self._pause_ended)

    def _pause_ended(self) -> None:
        self._pause = None
        self._ask()


def request_of(node: str) -> Application:
    """The request for the pods of a node, as a metaserver makes it of a kubelet's."""
    return application(_PODS, Verb.LIST, node, msgspec.json.encode({"fieldSelector": f"spec.nodeName={node}"}))


class _ListMetadata(msgspec.Struct, rename="camel"):
    continued: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: Metadata
    spec: _Spec


def pods_in(answer: Message, node: str) -> Listed:
    """The pods of a node in the cloud's answer. What is none, or another node's, is left out: a cloud that does not
    know the selector lists them all. One that has more to tell, or does not know all its objects yet, says so in the
    list's `continue` or `remainingItemCount`.

    Raises:
        CallError: it brings no list.
    """
    if answer.route.operation == Operation.ERROR:
        raise answers.error_in(answer)
    try:
        app = answer.content_as(Application)
        if app.status != Progress.APPROVED:
            raise CallError(_ATTEMPT, node, app.reason[:200] or "it refused and did not say why")
        body = app.resp_body or b""
        found = msgspec.json.decode(body, type=_List)
    except CallError:
        raise
    except (BeehiveError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MalformedAnswerError(_ATTEMPT, node, "the answer is no list") from error
    pods = [pod for item in found.items or () if (pod := _listed(bytes(item), node)) is not None]
    return Listed(pods, not found.metadata.continued and not found.metadata.remaining_item_count, len(body))


def _listed(text: bytes, node: str) -> ListedPod | None:
    try:
        text.decode()
        pod = msgspec.json.decode(text, type=_Pod)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    head = pod.metadata
    if pod.spec.node_name != node or not (head.uid and head.namespace and head.name):
        return None
    if "/" in head.namespace or "/" in head.name:
        return None
    return ListedPod(str(Resource.of(ResourceType.POD, head.namespace, head.name)), head, text)


def may_replace(pod: ListedPod, stored: str | None) -> bool:
    """Whether a pod of the list may take the place of what is stored: of another pod of its name only when it is newer;
    which state of one pod is newer the store knows.
    """
    if stored is None:
        return True
    head = head_of(stored.encode())
    return head.uid == pod.head.uid or version_number(pod.head.resource_version) > version_number(head.resource_version)
