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
from modules.cloud.apiserver.kinds import JsonObject, Kind, ObjectKey, key_for, kind_named, version_of
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
from modules.cloud.edgecontroller.cluster_state import WRITE_PERIOD, ClusterState
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.node_reads import shown
from modules.cloud.edgecontroller.node_writes import admitted, is_write, needs_live, same_uid
from modules.cloud.edgecontroller.object_sync_import import Imported, ObjectSyncImport
from modules.cloud.edgecontroller.procedure import Answered

_log = logging.getLogger(__name__)

MIRRORED: Final = (
    "Node", "Pod", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "CSIDriver",
)  # fmt: skip
"""The kinds that nodes hold (KubeEdge's cloudcore watches the same, whole)."""
_REQUIRED: Final = frozenset({"Node", "Pod"})
"""Kinds without which no node can be served; the right to another may be missing."""
_ASSIGNED: Final = "spec.nodeName!="
_LANES: Final = {
    "leases": RequestLane.LEASE,
    "nodes": RequestLane.NODE,
    "pods": RequestLane.POD_STATUS,
    "events": RequestLane.EVENT,
}
_REPEATABLE: Final = ("get", "list", "patch", "delete")
"""Verbs of calls that may be made again when their outcome is unknown; a JSON patch may add something twice."""
_WRITE_DELAY: Final = 0.1
"""Seconds in which the states of nodes that disconnect are collected."""
_OBJECT_SYNC: Final = "ObjectSync"
_SIGNING_REQUESTS: Final = "certificatesigningrequests"


class RemoteCluster(msgspec.Struct, frozen=True):
    """A cluster that is reached over HTTP."""

    connect: Callable[[Runtime], KubeTransport]
    """Returns a transport to the API server, at each start of edgecontroller."""
    keeps_state: bool = False
    """Whether what nodes have acknowledged is kept in it."""


class ClusterApi:
    """Makes API calls over HTTP, and mirrors the objects that nodes hold, each kind with one watch.

    The storage has the objects as the API server sent them, without `managedFields`. Its changes go to edgecontroller
    as those of the embedded API server do.

    Args:
        cluster: the cluster.
        module: edgecontroller.
        storage: empty.
        access_control: checks the writes of nodes; the cluster sees them as cloudcore's.
        transactions: of edgecontroller.
        end_turn: ends the turn soon: what comes from the API server is in no batch of messages.
        loaded: called when all objects are there; again when they were listed again after a restore of etcd.
        connections: take over KubeEdge's ObjectSyncs, and end with an epoch.
    """

    def __init__(
        self,
        cluster: RemoteCluster,
        module: Module,
        storage: Storage,
        access_control: AccessControl,
        transactions: Transactions,
        end_turn: Callable[[], None],
        loaded: Callable[[], None],
        *,
        connections: NodeConnections,
    ) -> None:
        self._storage = storage
        self._epochs = connections.epochs
        self._cluster = cluster
        self._module = module
        self._client: KubeClient | None = None
        self._access_control = access_control
        self._transactions = transactions
        self._end_turn = end_turn
        self._loaded = loaded
        self._missing = set(MIRRORED)
        """Kinds of which no list is complete yet."""
        self._connections = connections
        self._is_sending = False
        send = partial(self._send, node="")
        self._state = ClusterState(send, connections, transactions.begin) if cluster.keeps_state else None
        self._writes_soon = False
        self._is_loaded = False
        """Whether all objects were there once, and KubeEdge's ObjectSyncs were read if there was need."""

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

        if self._state is not None:
            self._module.every(WRITE_PERIOD, self._write_state)
            self._connections.released = self._write_soon

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
            self._send(call, answered, node)
        elif not is_write(call):
            self._send(call, lambda result: answered(shown(call, node, result)), node)
        elif kind is not None:
            self._admit(kind, call, node, answered)
        else:
            error = MethodNotAllowedError(f"a node writes no {call.plural[:80]}")
            answered(ApiResult(refusal=error.status()))

    def claim(self, node: str, then: Callable[[], None]) -> None:
        """Claim a node in the cluster if its state is there."""
        if self._state is None:
            then()
        else:
            self._state.claim(node, then)

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

    def _admit(self, kind: Kind, call: ApiCall, node: str, answered: Answered) -> None:
        """Check a node's write by NodeRestriction, and make it. The mirror may be behind the node, which may have had a
        new object from another cloudcore.
        """
        live = self._storage.find(key_for(kind, call.namespace, call.name)) if call.name else None
        if not needs_live(kind, call) or (live is not None and same_uid(call, live)):
            self._admit_change(kind, call, node, live, answered)
            return

        def found(result: ApiResult) -> None:
            if result.object is None:
                answered(result)
            else:
                self._admit_change(kind, call, node, result.object, answered)

        read = ApiCall(
            verb="get", api_version=call.api_version, plural=call.plural, namespace=call.namespace, name=call.name
        )
        self._send(read, found, "")

    def _admit_change(self, kind: Kind, call: ApiCall, node: str, live: JsonObject | None, answered: Answered) -> None:
        try:
            write = admitted(kind, call, live, self._access_control.admission(node))
        except ApiError as error:
            answered(ApiResult(refusal=error.status()))
        else:
            self._send(write, answered, node)

    def _send(self, call: ApiCall, answered: Answered, node: str) -> None:
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
                self._listed(kind, news.resource_version)
            case Refused():
                _log.warning("cannot watch %s: %d: %s", kind.plural, news.status, news.message)
                if kind.name not in _REQUIRED:
                    self._have(kind.name)
            case EpochChanged():
                _log.warning("%s: the versions of the API server went back: it was restored", kind.plural)
                if self.is_ready:
                    self._restored()
            case Deleted():
                key = ObjectKey(kind.key_name, news.object.namespace, news.object.name)
                last = _decoded(kind, news.object.body) or self._storage.find(key)
                self._observe(lambda: self._storage.observe(key, None, version_of(last) if last else ""))
            case _:
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

    def _listed(self, kind: Kind, version: str) -> None:
        self._transactions.begin()
        if kind.name == "Pod" and self._epochs.listed(version):
            _log.warning("%s: the API server was restored to an older state", kind.plural)
            self._list_again()
        else:
            self._have(kind.name)

    def _restored(self) -> None:
        self._transactions.begin()
        self._epochs.went_back()
        self._list_again()

    def _list_again(self) -> None:
        """List all kinds again: until then nodes are not served, as the mirror is partly older than the restore."""

        def list_all() -> None:
            self._missing |= set(MIRRORED)
            if self._client is not None:
                self._client.list_again()

        self._missing |= set(MIRRORED)
        self._module.call_soon(list_all)

    def _write_soon(self) -> None:
        """Write the states when nodes have disconnected, all at once: perhaps cloudcore stops."""
        if not self._writes_soon:
            self._writes_soon = True
            self._module.after(_WRITE_DELAY, self._write_state)

    def _write_state(self) -> None:
        self._writes_soon = False
        if self._state is not None:
            self._state.write()
            self._end_turn()

    def _have(self, kind: str) -> None:
        if kind in self._missing:
            self._missing.discard(kind)
            self._import_or_end()

    def _import_or_end(self) -> None:
        """When all objects are there, read the state in the cluster or KubeEdge's ObjectSyncs, if wanted, and go on."""
        if self._missing:
            return
        if self._is_loaded:
            self._loaded()
            return
        self._missing.add(_OBJECT_SYNC)
        if self._state is None:
            self._import()
        else:
            self._state.load(self._import)

    def _import(self) -> None:
        self._transactions.begin()
        if self._connections.have_state():
            self._is_loaded = True
            self._have(_OBJECT_SYNC)
            return

        def done(found: Imported) -> None:
            self._is_loaded = True
            self._observe(lambda: self._connections.take_over(found))
            self._have(_OBJECT_SYNC)
            self._end_turn()

        ObjectSyncImport(partial(self._send, node=""), self._storage.find, done).start()


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
