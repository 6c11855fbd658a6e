"""Lists this node's pods in the cloud, in case pushes were missed.

KubeEdge's cloud never repeats an acknowledged object, not even for an edge that has lost its database. It drops pods
that are bound to a node before the node registers. And with a Node object it forgets the node's pods, so that their
deletion is never sent. But its dynamiccontroller carries out requests of the Kubernetes API in the form of the edge's
metaserver, and a kubelet begins with this list: the pods whose `spec.nodeName` is its node. `PodList` requests it at
each connection, and some seconds after a new registration of the node.

Each listed pod is handled as if the cloud had pushed it. No stored pod is removed because the list lacks it: list and
pushes are two streams without a common order, so the pod may be newer than the list. Pods that a complete list lacks
are queried one by one (`metamanager.cloud_pods`). Listed pods that were deleted meanwhile are ignored, and so are
those whose name a newer pod has. The request has no resourceVersion, so that the API server answers from its newest
state: the list contains no pod deleted before the request.

In KubeEdge dynamicController is off by default, and then nothing answers. `PodList` asks seven times within about two
hours, and again after a registration of the node or a restart of the process.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from beehive import BeehiveError, Group, Message, Module, ModuleName, Operation, Resource, ResourceType, Timer
from beehive.decoding import decode_json
from metamanager import answers, replies
from metamanager.errors import CallError, MalformedAnswerError, NoAnswerError, StoreError
from metamanager.replies import Outcome, Reply, StoreChanges
from metamanager.rows import Cause, Metadata, PodHead, head_of, row_of, version_number
from metamanager.store import Store
from modules.apimachinery.application import Application, ListMetadata, Progress, Target, Verb, application, message_of

_log = logging.getLogger(__name__)

MOST_TRIES: Final = 7
"""Requests to a cloud that gives no list, per process."""
FIRST_DELAY: Final = 60.0
"""Seconds from the first of them to the second; the delay doubles."""
RETRY_SECONDS: Final = 10.0
"""Seconds after which a failure of this node is retried."""
SHORTEST_INTERVAL: Final = 30.0
"""Shortest time in seconds between two lists requested because of reconnections."""
BYTES_A_SECOND: Final = 2000
"""Average rate of these lists, for slow links that break often: with 110 pods of 6 kB, one list in five and a half
minutes.
"""
AFTER_REGISTRATION: Final = 5.0
"""Seconds from a new registration to the list: KubeEdge's cloud drops the pods of a node that it does not know yet."""

_CAUSE: Final = "listed by the cloud"
"""Cause of these changes in the history."""
_PODS: Final = Target("", "v1", "pods")
_ATTEMPT: Final = "get the list of this node's pods from the cloud"


class ListedPod(msgspec.Struct, frozen=True):
    """A pod of the list."""

    key: str
    """Its key in the store."""
    head: Metadata
    text: bytes
    """The pod as JSON, as received."""


class PodListing(msgspec.Struct, frozen=True):
    """The answer to a list request."""

    pods: list[ListedPod]
    complete: bool
    """Whether it contains all pods of the node."""
    size: int
    """Bytes of the answer."""


class PodList:
    """The list of this node's pods, requested from the cloud and stored.

    Args:
        module: metamanager.
        store: the database.
        node: name of this node.
        seconds: time that the cloud has for the answer.
        changes: take the outcome of a list, once it is in the store. After a failure the list is requested again later.
        complete: called with the uids of all pods of a complete list, if the link did not end meanwhile.
    """

    def __init__(
        self,
        module: Module,
        store: Store,
        node: str,
        seconds: float,
        *,
        changes: StoreChanges,
        complete: Callable[[frozenset[str]], None],
    ) -> None:
        self._module = module
        self._store = store
        self._node = node
        self._seconds = seconds
        self._changes = changes
        self._complete = complete
        self._connected = False
        self._interrupted = False
        """Whether the link ended during the request."""
        self._under_way = False
        self._pause: Timer | None = None
        self._due_at: float | None = None
        """Time of the next request, in monotonic seconds; None without one."""
        self._not_before = float("-inf")
        """Earliest time of a request because of a reconnection, in monotonic seconds."""
        self._tries = MOST_TRIES
        self._delay = FIRST_DELAY
        self._deleted: set[tuple[str, str]] = set()
        """Keys and uids of objects deleted during the request; an empty uid stands for any."""

    def connection_changed(self, *, connected: bool) -> None:
        """Take a change of the connection to the cloud."""
        self._connected = connected
        self._interrupted = self._interrupted or not connected
        if connected:
            self._schedule(max(self._module.clock.monotonic(), self._not_before))

    def node_registered(self) -> None:
        """Schedule a list after a new registration of the node."""
        self._tries = max(1, self._tries)
        self._schedule(self._module.clock.monotonic() + AFTER_REGISTRATION)

    def request_again(self) -> None:
        """Schedule the list again: this node could not use it."""
        self._retry_after(RETRY_SECONDS)

    def record_deletion(self, key: str, uid: str) -> None:
        """Note that the cloud has deleted an object."""
        if self._under_way:
            self._deleted.add((key, uid))

    def _schedule(self, at: float) -> None:
        """Schedule a request; an open one may return too old a list."""
        self._due_at = at if self._due_at is None or self._under_way else min(at, self._due_at)
        self._ask()

    def _ask(self) -> None:
        """Request the list if it is due."""
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
                self._retry_after(RETRY_SECONDS)
            else:
                self._not_given(error)
            return
        try:
            outcome = self._put(result, listed.pods)
        except StoreError as error:
            self._retry_after(RETRY_SECONDS)
            self._changes.change_failed(error)
            return
        self._given(outcome, listed)

    def _given(self, outcome: Outcome, listed: PodListing) -> None:
        self._tries, self._delay = MOST_TRIES, FIRST_DELAY
        self._not_before = self._module.clock.monotonic() + max(SHORTEST_INTERVAL, listed.size / BYTES_A_SECOND)
        self._changes.add_change(outcome)
        if listed.complete and not self._interrupted:
            self._complete(frozenset(pod.head.uid or "" for pod in listed.pods))
        self._ask()

    def _put(self, answer: Message, pods: list[ListedPod]) -> Outcome:
        """Store the listed pods, and send edged the ones at least as new as the stored pods.

        Unchanged pods go to edged too, because an earlier attempt may have ended between store and edged; edged ignores
        a state that it has.
        """
        news: list[Reply] = []
        now, cause = self._module.clock.now_ms(), Cause(_CAUSE, answer.id)
        for pod in pods:
            if self._is_overtaken(pod) or not may_replace(pod, self._store.get(pod.key)):
                continue
            if self._store.put(row_of(pod.key, pod.text, now, cause)):
                news.append(replies.to_edged(self._as_pushed(pod)))
        _log.info("received the cloud's list of this node's pods: %d pods, %d of them changed", len(pods), len(news))
        return Outcome(news, changed=True, failure_replies=self._not_durable)

    def _is_overtaken(self, pod: ListedPod) -> bool:
        return not self._deleted.isdisjoint({(pod.key, pod.head.uid or ""), (pod.key, "")})

    def _as_pushed(self, pod: ListedPod) -> Message:
        source, version = ModuleName.EDGECONTROLLER, pod.head.resource_version or ""
        content = msgspec.Raw(pod.text)
        return self._module.message(
            pod.key, Operation.UPDATE, content, source=source, group=Group.RESOURCE, resourceversion=version
        )

    def _not_given(self, error: CallError) -> None:
        if self._tries == MOST_TRIES:
            _log.warning(
                "the cloud does not list this node's pods (is its dynamicController switched on?); a pod that it has "
                "not pushed may be missing until it changes, and a pod that it has forgotten does not end: %s",
                error,
            )
        self._tries -= 1
        self._retry_after(self._delay)
        self._delay *= 2

    def _not_durable(self) -> list[Reply]:
        self._retry_after(RETRY_SECONDS)
        return []

    def _retry_after(self, seconds: float) -> None:
        """Schedule the failed request again, unless a connection or registration has asked for an earlier one."""
        self._schedule(self._module.clock.monotonic() + seconds)

    def _later(self, seconds: float) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._module.after(seconds, self._pause_ended)

    def _pause_ended(self) -> None:
        self._pause = None
        self._ask()


def request_of(node: str) -> Application:
    """Return the request for the pods of a node, as a metaserver makes it."""
    return application(_PODS, Verb.LIST, node, msgspec.json.encode({"fieldSelector": f"spec.nodeName={node}"}))


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)


def pods_in(answer: Message, node: str) -> PodListing:
    """Return the pods of a node in the cloud's answer, without other objects and other nodes' pods.

    A cloud without support for the selector lists all pods.

    Raises:
        CallError: the answer has no list.
    """
    if answer.route.operation == Operation.ERROR:
        raise answers.error_in(answer)
    try:
        app = answer.content_as(Application)
        if app.status != Progress.APPROVED:
            raise CallError(_ATTEMPT, node, app.reason[:200] or "it refused without a reason")
        body = app.resp_body or b""
        found = decode_json(body, _List)
    except CallError:
        raise
    except (BeehiveError, msgspec.DecodeError, UnicodeError) as error:
        raise MalformedAnswerError(_ATTEMPT, node, "the answer is no list") from error
    pods = [pod for item in found.items or () if (pod := _listed(bytes(item), node)) is not None]
    return PodListing(pods, found.metadata.is_end, len(body))


def _listed(text: bytes, node: str) -> ListedPod | None:
    try:
        text.decode()
        pod = decode_json(text, PodHead)
    except (msgspec.DecodeError, UnicodeError):
        return None
    head = pod.metadata
    if pod.spec.node_name != node or not (head.uid and head.namespace and head.name):
        return None
    if "/" in head.namespace or "/" in head.name:
        return None
    return ListedPod(str(Resource.of(ResourceType.POD, head.namespace, head.name)), head, text)


def may_replace(pod: ListedPod, stored: str | None) -> bool:
    """Return whether a listed pod may replace the stored one: another pod of its name only if it is newer. Between
    states of one pod the store decides.
    """
    if stored is None:
        return True
    head = head_of(stored.encode())
    return head.uid == pod.head.uid or version_number(pod.head.resource_version) > version_number(head.resource_version)
