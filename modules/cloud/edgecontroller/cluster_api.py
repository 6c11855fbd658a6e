"""The API server of a cluster, as edgecontroller's engine."""

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.module import Module
from beehive.runtime import Runtime
from modules.cloud.apiserver.authorization.access_control import AccessControl
from modules.cloud.apiserver.authorization.attributes import user_of
from modules.cloud.apiserver.database.errors import DatabaseError
from modules.cloud.apiserver.errors import ApiError, MethodNotAllowedError, UnknownKindError
from modules.cloud.apiserver.kinds import JsonObject, Kind, ObjectKey, key_for, key_of, kind_named, uid_of, version_of
from modules.cloud.apiserver.storage import ObjectEvent, Storage
from modules.cloud.apiserver.transactions import Transactions
from modules.cloud.apiserver.watch_history import ObjectChanged, WatchQuery, WatchStart
from modules.cloud.client.call_requests import CallError, collection_path, failure, request_of, result_of
from modules.cloud.client.calls import JSON_PATCH, ApiCall, ApiResult
from modules.cloud.client.kube_client import CallEnd, KubeClient, News
from modules.cloud.client.lane_calls import CallAnswered, CallSuperseded, RequestLane
from modules.cloud.client.reflector.effects import Deleted, EpochChanged, Refused, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.client.transport import ApiRequest, KubeTransport
from modules.cloud.edgecontroller.downstream_controller import DownstreamController
from modules.cloud.edgecontroller.downstream_messages import deletion_of_unknown
from modules.cloud.edgecontroller.ended_pods import EndedPods, ended_uid, missing_pods
from modules.cloud.edgecontroller.node_reads import shown
from modules.cloud.edgecontroller.node_writes import admitted, is_write, needs_live, same_uid
from modules.cloud.edgecontroller.procedure import Answered

_log = logging.getLogger(__name__)

MIRRORED: Final = (
    "Node", "Pod", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "CSIDriver",
)  # fmt: skip
"""The kinds that nodes hold (KubeEdge's cloudcore watches the same, whole)."""
_REQUIRED: Final = frozenset({"Node", "Pod"})
"""Kinds without which no node can be served; the right to another may be missing."""
_POD: Final = kind_named("Pod")
_ASSIGNED: Final = "spec.nodeName!="
_LANES: Final = {
    "leases": RequestLane.LEASE,
    "nodes": RequestLane.NODE,
    "pods": RequestLane.POD_STATUS,
    "events": RequestLane.EVENT,
}
_REPEATABLE: Final = ("get", "list", "patch", "delete")
"""Verbs of calls that may be made again when their outcome is unknown; a JSON patch may add something twice."""
_SIGNING_REQUESTS: Final = "certificatesigningrequests"


class RemoteCluster(msgspec.Struct, frozen=True):
    """A cluster that is reached over HTTP."""

    connect: Callable[[Runtime], KubeTransport]
    """Returns a transport to the API server, at each start of edgecontroller."""


class ClusterApi:
    """Makes API calls over HTTP, and mirrors the objects that nodes hold, each kind with one watch.

    The storage has the objects as the API server sent them, without `managedFields`. Its changes go to edgecontroller
    as those of the embedded API server do.

    Args:
        cluster: the cluster.
        module: edgecontroller.
        storage: empty.
        end_turn: ends the turn soon: what comes from the API server is in no batch of messages.
        downstream: sends nodes their objects; told what the mirror knows beyond the objects.
        access_control: checks the writes of nodes; the cluster sees them as cloudcore's.
        transactions: of edgecontroller.
        loaded: called once, when all objects are there.
    """

    def __init__(  # noqa: PLR0917 - edgecontroller's own parts
        self,
        cluster: RemoteCluster,
        module: Module,
        storage: Storage,
        end_turn: Callable[[], None],
        downstream: DownstreamController,
        access_control: AccessControl,
        transactions: Transactions,
        loaded: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._cluster = cluster
        self._module = module
        self._client: KubeClient | None = None
        self._access_control = access_control
        self._transactions = transactions
        self._end_turn = end_turn
        self._loaded = loaded
        self._downstream = downstream
        self._ended_pods = EndedPods()
        self._missing = set(MIRRORED)
        """Kinds of which no list is complete yet."""
        self._is_sending = False
        self._following: dict[str, list[Callable[[], None]]] = {}
        """By object that is read before a write to it: the writes that came after, and must not overtake it."""

    @property
    def storage(self) -> Storage:
        """The objects of the mirrored kinds."""
        return self._storage

    @property
    def knows_all(self) -> bool:
        """Whether all objects are there."""
        return self.is_ready

    @property
    def is_ready(self) -> bool:
        """Whether all objects are there."""
        return not self._missing

    def start(self) -> None:
        """Begin to list and watch the mirrored kinds."""
        client = self._client = KubeClient(
            self._cluster.connect(self._module.runtime), self._module, self._module.clock.random
        )
        for name in MIRRORED:
            kind = kind_named(name)
            selector = _ASSIGNED if name == "Pod" else ""
            selection = Selection(path=collection_path(kind.api_version, kind.plural), field_selector=selector)
            client.watch(selection, partial(self._told, kind))

    def stop(self) -> None:
        """End all requests."""
        if self._client is not None:
            self._client.close()

    def perform(self, call: ApiCall, node: str, answered: Answered) -> None:
        """Make a call: a read of a mirrored object from the mirror, all others over HTTP."""
        kind = self._kind_of(call)
        known = self._mirrored(kind, call)
        if known is not None:
            answered(ApiResult(known))
        elif not node:
            self._send(call, node, answered)
        elif not is_write(call):
            self._send(call, node, partial(self._have_read, call, node, answered))
        elif kind is not None:
            self._admit(kind, call, node, self._noting_end(kind, call, node, answered))
        else:
            error = MethodNotAllowedError(f"a node writes no {call.plural[:80]}")
            answered(ApiResult(refusal=error.status()))

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Refuse: who watches a cluster asks its API server."""
        why = f"cloudcore serves no watch of {query.kind} of a cluster: ask the cluster's API server"
        return WatchStart(refusal=MethodNotAllowedError(why).status())

    def changed(self, event: ObjectEvent) -> None:
        """Do nothing: others watch the cluster themselves."""

    def take_noted(self) -> tuple[ObjectChanged, ...]:
        """Return nothing."""
        return ()

    def before_commit(self) -> None:
        """Do nothing: the cluster has controllers of its own."""

    def _kind_of(self, call: ApiCall) -> Kind | None:
        """Return the kind of a call's resource, None for one of which edgecontroller knows nothing."""
        try:
            return self._storage.kinds.at(call.api_version, call.plural)
        except UnknownKindError:
            return None

    def _mirrored(self, kind: Kind | None, call: ApiCall) -> JsonObject | None:
        if call.verb != "get" or call.subresource or kind is None or kind.name not in MIRRORED:
            return None
        return self._storage.find(key_for(kind, call.namespace, call.name))

    def _have_read(self, call: ApiCall, node: str, answered: Answered, result: ApiResult) -> None:
        """Take the answer to a node's read. A list of its pods is newer than what a late watch has told: a pod that is
        missing there must not be sent to the node again.
        """
        for pod in list(missing_pods(call, node, result, self._storage.list(_POD))) if call.plural == "pods" else ():
            self._observe(partial(self._pod_ended, key_of(pod), uid_of(pod), node))
        answered(shown(call, node, result))

    def _noting_end(self, kind: Kind, call: ApiCall, node: str, answered: Answered) -> Answered:
        """Return what takes the answer to a node's write, and a deletion's at once as what the watch is still to tell:
        the node waits for the deletion, also of a pod that the mirror has never had.
        """
        if kind.name != "Pod" or call.verb != "delete":
            return answered

        def noted(result: ApiResult) -> None:
            uid = ended_uid(call, result)
            if uid:
                self._observe(lambda: self._pod_ended(key_for(kind, call.namespace, call.name), uid, node))
            answered(result)

        return noted

    def _pod_ended(self, key: ObjectKey, uid: str, node: str) -> None:
        self._ended_pods.add(uid)
        live = self._storage.find(key)
        if live is not None and uid_of(live) == uid:
            self._storage.observe(key, None)
        else:
            self._downstream.send(deletion_of_unknown(node, key, uid))

    def _admit(self, kind: Kind, call: ApiCall, node: str, answered: Answered) -> None:
        """Check a node's write by NodeRestriction, and make it. The mirror may be behind the node, which may have had a
        new object from another cloudcore.
        """
        turn = f"{call.plural} {call.namespace}/{call.name}"
        if call.name and turn in self._following:
            self._following[turn].append(partial(self._admit, kind, call, node, answered))
            return
        live = self._storage.find(key_for(kind, call.namespace, call.name)) if call.name else None
        if not needs_live(kind, call) or (live is not None and same_uid(call, live)):
            self._admit_change(kind, call, node, live, answered)
            return

        def found(result: ApiResult) -> None:
            waiting = self._following.pop(turn, ())
            try:
                if result.object is None:
                    answered(result)
                else:
                    self._admit_change(kind, call, node, result.object, answered)
            finally:
                for each in waiting:
                    each()

        if call.name:
            self._following[turn] = []
        read = ApiCall(
            verb="get", api_version=call.api_version, plural=call.plural, namespace=call.namespace, name=call.name
        )
        self._send(read, "", found)

    def _admit_change(self, kind: Kind, call: ApiCall, node: str, live: JsonObject | None, answered: Answered) -> None:
        try:
            write = admitted(kind, call, live, self._access_control.admission(node))
        except ApiError as error:
            answered(ApiResult(refusal=error.status()))
        else:
            self._send(write, node, answered)

    def _send(self, call: ApiCall, node: str, answered: Answered) -> None:
        if self._client is None:
            answered(failure(HTTPStatus.SERVICE_UNAVAILABLE, "edgecontroller has not started"))
            return
        try:
            request = request_of(call)
        except CallError as error:
            answered(failure(HTTPStatus.BAD_REQUEST, str(error)))
            return
        if call.plural == _SIGNING_REQUESTS and call.verb == "create" and node:
            request = _impersonating(request, node)
        key = f"{call.verb} {call.namespace}/{call.name}" if is_write(call) and call.name else ""
        is_repeatable = call.verb in _REPEATABLE and call.patch_type != JSON_PATCH
        lane = _LANES.get(call.plural, RequestLane.QUERY)
        self._is_sending = True
        self._client.call(lane, request, partial(self._ended, answered), key=key, idempotent=is_repeatable)
        self._is_sending = False

    def _ended(self, answered: Answered, end: CallEnd) -> None:
        """Take the end of a call: later when another message is at work, whose new call has taken this one's place."""
        if self._is_sending:
            self._module.call_soon(lambda: self._answered(answered, end))
        else:
            self._answered(answered, end)

    def _answered(self, answered: Answered, end: CallEnd) -> None:
        answered(_result(end))
        self._end_turn()

    def _told(self, kind: Kind, news: News) -> None:
        self._end_turn()
        match news:
            case Synced():
                self._downstream.listed(kind.key_name, news.resource_version)
                self._have(kind.name)
            case Refused():
                _log.warning("cannot watch %s: %d: %s", kind.plural, news.status, news.message)
                if kind.name not in _REQUIRED:
                    self._have(kind.name)
            case EpochChanged():
                _log.warning("%s: the versions of the API server went back: it was restored", kind.plural)
                self._ended_pods.forget()
            case Deleted():
                self._ended_pods.told(news.object.uid)
                key = ObjectKey(kind.key_name, news.object.namespace, news.object.name)
                last = _decoded(kind, news.object.body) or self._storage.find(key)
                self._observe(lambda: self._storage.observe(key, None, version_of(last) if last else ""))
            case _ if news.object.uid not in self._ended_pods:
                key = ObjectKey(kind.key_name, news.object.namespace, news.object.name)
                obj = _decoded(kind, news.object.body)
                if obj is not None:
                    self._observe(lambda: self._storage.observe(key, obj))

    def _observe(self, change: Callable[[], None]) -> None:
        """Take over a change in the transaction of the turn. One that cannot be handled is dropped."""
        try:
            self._transactions.attempt(change)
        except DatabaseError:
            raise
        except Exception:  # noqa: BLE001 - one object must not stop the module for all
            _log.exception("a change of an object cannot be handled")

    def _have(self, kind: str) -> None:
        if kind in self._missing:
            self._missing.discard(kind)
            if not self._missing:
                self._loaded()


def _decoded(kind: Kind, body: bytes) -> JsonObject | None:
    """Return an object without its `managedFields`, None for what is no object."""
    try:
        obj = msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _log.warning("one of the %s cannot be read: %s", kind.plural, error)
        return None
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return None
    obj["metadata"].pop("managedFields", None)
    return {**obj, "kind": kind.name, "apiVersion": kind.api_version}


def _result(end: CallEnd) -> ApiResult:
    if isinstance(end, CallAnswered):
        return result_of(end.response)
    if isinstance(end, CallSuperseded):
        return failure(HTTPStatus.SERVICE_UNAVAILABLE, "a newer request for the object has taken its place")
    why = getattr(end, "why", "too many requests wait for the API server")
    return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"no answer of the API server: {why}")


def _impersonating(request: ApiRequest, node: str) -> ApiRequest:
    """Return a request in the name of a node: the API server notes who asks for a certificate."""
    groups = (("Impersonate-Group", "system:nodes"), ("Impersonate-Group", "system:authenticated"))
    headers = (*request.headers, ("Impersonate-User", user_of(node)), *groups)
    return msgspec.structs.replace(request, headers=headers)
