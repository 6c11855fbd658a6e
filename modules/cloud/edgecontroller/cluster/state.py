"""The versions that nodes have acknowledged, stored in the cluster: one NodeState for each node."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from beehive.module import Module
from modules.apimachinery.kinds import JsonObject, version_of
from modules.apimachinery.printing.fields import text_at
from modules.cloud.client.calls import Answered, ApiCall, ApiResult, CallSender
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.state import node_states
from modules.cloud.edgecontroller.state.node_states import API_VERSION, PLURAL
from modules.cloud.edgecontroller.state.stored_states import StoredStates
from modules.cloud.storage.object_sync import Epoch, Holder, NodeState, ObjectSync
from modules.cloud.storage.transactions import Transactions

_log = logging.getLogger(__name__)

_WRITE_PERIOD: Final = 5.0
"""Seconds between two writes of a node's state."""
_WRITE_DELAY: Final = 0.1
"""Seconds to collect the states of disconnected nodes."""
_ATTEMPTS: Final = 4
_PAGE: Final = 100
_MAX_PAGES: Final = 10_000
_COMPARED: Final = ("nodeUID", "epoch", "objects")
_MISSING: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_STALE: Final = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)


class ClusterState:
    """The NodeStates, read at the start and written when they change.

    The working copy is the database, in memory. A write that is lost costs bytes: objects are sent again. A deletion
    that a node has not acknowledged is an object of its state that the cluster no longer has.

    When a node connects, cloudcore claims it with a write, which needs the resourceVersion that was read last. So the
    node is served with the newest state. The next write of the node's former cloudcore is
    refused, and that cloudcore ends its connection. A cloudcore may be so slow that it claims a node after the node has
    left it: each claim has the time of the connection, and the newer connection stays.

    Args:
        cluster: has the namespace of the NodeStates, and counts the writes.
        api: sends API calls; the answer comes in a turn of the module.
        module: edgecontroller.
        transactions: of edgecontroller.
        connections: of nodes.
        states: the working copy.
        restore: serves a node whose state another cloudcore has written since.
    """

    def __init__(
        self,
        cluster: RemoteCluster,
        api: CallSender,
        module: Module,
        transactions: Transactions,
        connections: NodeConnections,
        states: StoredStates,
        restore: Callable[[str], None],
    ) -> None:
        self._namespace = cluster.state_namespace
        self._counters = cluster.node_states
        self._api = api
        self._module = module
        self._states = states
        self._connections = connections
        self._restore = restore
        self._transactions = transactions
        self._written_specs: dict[str, int] = {}
        """By node, a hash of its NodeState, so that only changed ones are written."""
        self._epoch = Epoch()
        self._versions: dict[str, str] = {}
        """By node, the resourceVersion of its NodeState, as far as it exists."""
        self._busy: set[str] = set()
        """Nodes whose NodeState is being written."""
        self._changed: set[str] = set()
        self._owned: set[str] = set()
        """Nodes that were claimed here, and not elsewhere since: no others are written."""
        self._connected_at: dict[str, float] = {}
        """When these nodes connected, in seconds since 1970."""
        self._holders: dict[str, Holder] = {}
        """The cloudcores that have claimed nodes last, as far as was read."""
        self._is_off = False
        """Whether the right or the definition is missing."""
        self._pages = 0
        self._writes_soon = False

    def start(self) -> None:
        """Begin to write the states that change."""
        self._states.note_changes()
        self._module.every(_WRITE_PERIOD, self._write)

    def load(self, done: Callable[[], None]) -> None:
        """Read all NodeStates. Without the right or the definition, nodes are sent everything again."""
        self._ask_page("", done)

    def claim(self, node: str, connected_at: float, then: Callable[[], None], superseded: Callable[[], None]) -> None:
        """Write that a node belongs to this cloudcore, and read the state that others have written.

        Args:
            node: the node.
            connected_at: when it connected, in seconds since 1970.
            then: called when it is written, and if it cannot be written.
            superseded: called instead if the node has connected to another cloudcore since.
        """
        self._owned.add(node)
        self._connected_at[node] = connected_at
        if self._is_off or (node not in self._versions and self._body_of(node) is None):
            then()
        else:
            self._claim(node, then, superseded, _ATTEMPTS)

    def holders(self, node: str, then: Callable[[Mapping[str, str]], None]) -> None:
        """Read the cloudcore of a node's last connection, "" for all nodes. `then` takes what can be read."""
        if self._is_off:
            then({})
        elif node:
            self._api.send(self._call("get", name=node), lambda result: then(_holders([result.object])))
        else:
            self._ask_holders("", {}, then, _MAX_PAGES)

    def _ask_holders(
        self, token: str, found: dict[str, str], then: Callable[[Mapping[str, str]], None], pages: int
    ) -> None:
        def answered(result: ApiResult) -> None:
            page: JsonObject = result.object or {}
            found.update(_holders(page.get("items")))
            rest = (page.get("metadata") or {}).get("continue")
            if rest and pages:
                self._ask_holders(str(rest), found, then, pages - 1)
            else:
                then(found)

        self._api.send(self._call("list", options=_page(token)), answered)

    def write_soon(self, node: str) -> None:
        """Write the states when nodes have disconnected, all together: perhaps cloudcore stops."""
        self._changed.add(node)
        if not self._writes_soon:
            self._writes_soon = True
            self._module.after(_WRITE_DELAY, self._write)

    def _write(self) -> None:
        """Write the states that have changed."""
        self._writes_soon = False
        self._transactions.begin()
        changed = self._changed | self._states.drain_changed()
        for node in changed - self._busy:
            if not self._states.is_known(node):
                self._forget(node)
        self._changed = changed & self._owned
        for node in sorted(self._changed - self._busy) if not self._is_off else ():
            self._changed.discard(node)
            body = self._body_of(node)
            if body is not None and _hash(body) != self._written_specs.get(node):
                self._put(node, body, partial(self._written, node))
        self._module.end_turn_soon()

    def _ask_page(self, token: str, done: Callable[[], None]) -> None:
        self._pages += 1

        def answered(result: ApiResult) -> None:
            if result.object is None:
                _log.warning("the NodeStates cannot be read: %s", (result.refusal or {}).get("message", ""))
                self._is_off = _code(result) in _MISSING
            page: JsonObject = result.object or {}
            items = page.get("items")
            for each in items if isinstance(items, list) else ():
                if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
                    self._adopt(str(each["metadata"].get("name", "")), each)
            rest = (page.get("metadata") or {}).get("continue")
            if rest and self._pages < _MAX_PAGES:
                self._ask_page(str(rest), done)
            else:
                self._transactions.begin()
                self._connections.epochs.resume(self._epoch)
                done()

        self._api.send(self._call("list", options=_page(token)), answered)

    def _claim(self, node: str, then: Callable[[], None], superseded: Callable[[], None], attempts: int) -> None:
        if self._holders.get(node, Holder()).is_newer_than(self._own(node), self._module.clock.now()):
            self._release(node)
            superseded()
            return

        def written(result: ApiResult) -> None:
            if _code(result) in _STALE and attempts:
                self._read(node, again)
                return
            self._busy.discard(node)
            if result.object is None:
                _log.warning(
                    "node %s: its state cannot be written: %s", node, (result.refusal or {}).get("message", "")
                )
            then()

        def again(obj: JsonObject) -> None:
            if obj:
                self._adopt(node, obj)
            self._claim(node, then, superseded, attempts - 1)

        self._put(node, self._body_of(node) or self._object_of(node, NodeState(), {}), written)

    def _own(self, node: str) -> Holder:
        return Holder(self._states.cloudcore, self._connected_at.get(node, 0))

    def _release(self, node: str) -> None:
        self._owned.discard(node)
        self._busy.discard(node)
        self._connected_at.pop(node, None)

    def _forget(self, node: str) -> None:
        """Forget a node that was deleted, or has left without having registered; its NodeState goes with the Node."""
        self._release(node)
        self._counters.left_out.pop(node, None)
        for by_node in (self._written_specs, self._versions, self._holders):
            by_node.pop(node, None)

    def _read(self, node: str, then: Callable[[JsonObject], None]) -> None:
        """Read a NodeState, and note its version; `then` takes it, without fields by default."""

        def answered(result: ApiResult) -> None:
            if result.object is not None:
                self._versions[node] = version_of(result.object)
            elif _code(result) == HTTPStatus.NOT_FOUND:
                self._versions.pop(node, None)
            then(result.object or {})

        self._api.send(self._call("get", name=node), answered)

    def _adopt(self, node: str, obj: JsonObject) -> None:
        """Take over a NodeState, unless the node is connected here."""
        self._versions[node] = version_of(obj)
        self._holders.pop(node, None)
        stored = node_states.read(obj)
        if stored is None:
            _log.warning("the NodeState of node %s cannot be read", node)
            return
        self._holders[node] = stored.holder
        self._transactions.begin()
        self._written_specs[node] = _hash(obj)
        self._states.adopt(node, stored.state, stored.syncs)
        self._connections.epochs.read_elsewhere(stored.state.epoch)
        found = Epoch(stored.state.epoch, node_states.newest_pod_version(stored.syncs))
        if (found.number, found.newest) > (self._epoch.number, self._epoch.newest):
            self._epoch = found

    def _put(self, node: str, body: JsonObject, then: Answered) -> None:
        self._busy.add(node)
        version = self._versions.get(node)
        if version is not None:
            body["metadata"]["resourceVersion"] = version

        def answered(result: ApiResult) -> None:
            if result.object is not None:
                self._versions[node] = version_of(result.object)
                self._written_specs[node] = _hash(body)
                self._counters.writes += 1
            elif _code(result) not in _STALE:
                self._counters.failures += 1
            then(result)

        name = node if version is not None else ""
        self._api.send(self._call("update" if name else "create", name=name, body=body), answered)

    def _body_of(self, node: str) -> JsonObject | None:
        """Return the NodeState of a node; None when there is none, as before the node has registered or after its
        deletion.
        """
        state, syncs = self._states.of(node)
        return self._object_of(node, state, syncs) if state.uid or syncs else None

    def _object_of(self, node: str, state: NodeState, syncs: dict[str, ObjectSync]) -> JsonObject:
        objects, left_out = node_states.packed(syncs)
        self._log_left_out(node, left_out, len(syncs))
        return node_states.object_of(node, self._namespace, state, objects, self._own(node))

    def _log_left_out(self, node: str, left_out: int, objects: int) -> None:
        """Log that the NodeState of a node has become too small for its objects; once, until they fit again."""
        known = self._counters.left_out
        if not left_out:
            known.pop(node, None)
            return
        if node not in known:
            why = f"it has {objects} objects, and {left_out} of them do not fit into its NodeState"
            _log.warning("node %s: %s: it is sent these again at its next connection", node, why)
        known[node] = left_out

    def _call(self, verb: str, name: str = "", **fields: Any) -> ApiCall:
        return ApiCall(
            verb=verb, api_version=API_VERSION, plural=PLURAL, namespace=self._namespace, name=name, **fields
        )

    def _written(self, node: str, result: ApiResult) -> None:
        if result.object is not None:
            self._busy.discard(node)
            return
        if _code(result) not in _STALE:
            self._busy.discard(node)
            self._changed.add(node)
            return

        def found(obj: JsonObject) -> None:
            self._busy.discard(node)
            stored = node_states.read(obj) if obj else None
            if stored is None or stored.holder.cloudcore in ("", self._states.cloudcore):
                self._changed.add(node)  # the answer to an earlier write was lost
                return
            self._transactions.begin()
            if self._own(node).is_newer_than(stored.holder, self._module.clock.now()):
                self._states.put(node, stored.state, stored.syncs)  # this cloudcore's claim was lost
                self._connections.epochs.read_elsewhere(stored.state.epoch)
                self._restore(node)
                self._changed.add(node)
                return
            self._release(node)
            self._connections.close(node)
            self._adopt(node, obj)

        self._read(node, found)


def _page(token: str) -> JsonObject:
    return {"limit": str(_PAGE), **({"continue": token} if token else {})}


def _holders(items: Any) -> dict[str, str]:
    """Return the cloudcores in NodeStates, by node."""
    found = {}
    for each in items if isinstance(items, list) else ():
        name, holder = text_at(each, "metadata.name"), text_at(each, "spec.cloudcore")
        if name and holder:
            found[name] = holder
    return found


def _code(result: ApiResult) -> int:
    return int((result.refusal or {}).get("code", 0))


def _hash(obj: JsonObject) -> int:
    """Return a hash of the fields of a NodeState about its node, without the cloudcore."""
    spec = obj.get("spec")
    return hash(tuple(str(spec.get(name, "")) for name in _COMPARED) if isinstance(spec, dict) else ())
