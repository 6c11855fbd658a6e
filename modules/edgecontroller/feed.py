"""What each connected node is sent, so that it has what it needs: from changes as they happen, and from what it lacks
when it connects (KubeEdge's downstream controller and its sync controller).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from beehive.names import Operation
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.downstream import Downstream, deletion_of_unknown, for_event, message
from modules.edgecontroller.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, kind_named, uid_of, version_of
from modules.edgecontroller.references import LocationCache, references_of
from modules.edgecontroller.store import Change, ObjectEvent
from modules.edgecontroller.syncs import Sync, Syncs

_POD, _NODE, _DRIVER = kind_named("Pod"), kind_named("Node"), kind_named("CSIDriver")
MOST_HELD = 2000
"""Objects that a node holds, beyond which it is not noted that it asks for one that is not there."""
_FIRST_AS_UPDATE = ("Secret", "Node")


class Feed:
    """See the module's docstring.

    Args:
        cluster: the objects.
        syncs: what the connected nodes have.
        send: sends a message to a node.
        may_have: whether a node may read an object; of what it may not, it gets no more than the deletion.
    """

    def __init__(
        self,
        cluster: Cluster,
        syncs: Syncs,
        send: Callable[[Downstream], None],
        may_have: Callable[[str, ObjectKey], bool],
    ) -> None:
        self._cluster = cluster
        self._may_have = may_have
        self._syncs = syncs
        self._send = send
        self._locations = LocationCache()
        self._pods: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        """The pods of each node."""
        self._lacked: dict[str, set[str]] = {}
        """What each node had not acknowledged at the last look, by uid."""

    def learn_pods(self) -> None:
        """Notes which nodes need what, from all pods."""
        for pod in self._cluster.list(_POD):
            self._learn(key_of(pod), pod)

    def note_holder(self, key: ObjectKey, node: str) -> None:
        """A node wants to hear of an object, which need not be there yet; of what is not there, of so many at most."""
        if self._cluster.store.find(key) is not None or self._locations.count(node) < MOST_HELD:
            self._locations.note(key, node)

    def disconnected(self, node: str) -> None:
        """A node is gone: what it has asked for, and neither has nor needs for a pod, is forgotten."""
        self._lacked.pop(node, None)
        self._locations.forget_node(node)
        for key in self._pods.get(node, ()):
            pod = self._cluster.store.find(key)
            if pod is not None:
                self._locations.learn(pod)

    def note_answered(self, node: str, content: object) -> None:
        """A node gets an answer; when it is an object, the node has that from now on."""
        if isinstance(content, dict) and "kind" in content and uid_of(content):
            self._syncs.sending(node, uid_of(content), key_of(content))

    def changed(self, event: ObjectEvent) -> None:
        """An object has changed: sends what that means for the connected nodes."""
        down = for_event(event, self._holders(event))
        if event.key.kind == _POD.name and event.change is Change.DELETED:
            self._pods[_node_of(event.new)].pop(event.key, None)
        elif event.key.kind == _POD.name:
            references = self._learn(event.key, event.new)
            refers_anew = event.old is None or references != references_of(event.old)
            for one in down:
                if one.operation is Operation.INSERT or refers_anew:  # what it has may be from before its last pod went
                    self._send_objects(one.node, references)
        for one in down:
            self.send(one)
        if event.change is Change.DELETED and self._locations.forget(event.key):
            self.learn_pods()

    def undone(self, event: ObjectEvent) -> None:
        """A change of which `changed` was told has not taken place."""
        if event.key.kind == _POD.name:
            self._pods[_node_of(event.new)].pop(event.key, None)
            if event.old is not None:
                self._learn(event.key, event.old)

    def connected(self, node: str) -> None:
        """A node is there: sends what it lacks, from now on."""
        self._lacked.pop(node, None)
        for sync in self._syncs.of(node).values():
            if sync.key.kind not in (_POD.name, _NODE.name):
                self._locations.note(sync.key, node)
        drivers = [key_of(driver) for driver in self._cluster.list(_DRIVER)]
        wanted = [*drivers, *self._locations.on_node(node), *self._pods.get(node, ())]
        self._send_missing(node, self._lacking(node), wanted)

    def repeat(self) -> None:
        """Sends again what nodes lacked at the last look already. What they lack since then is on its way, or its
        acknowledgement is: of a deletion, cloudhub could not tell that it has been acknowledged.
        """
        lacking = {node: self._lacking(node) for node in self._syncs.nodes()}
        for node, syncs in lacking.items():
            lacked = self._lacked.get(node, set())
            self._send_missing(node, {uid: sync for uid, sync in syncs.items() if uid in lacked})
        self._lacked = {node: set(syncs) for node, syncs in lacking.items() if syncs}

    def send(self, down: Downstream) -> None:
        """Sends a message to a node, if it is connected here, and takes down that it will have the object."""
        if self._syncs.is_connected(down.node):
            self._syncs.sending(down.node, uid_of(down.content), down.key)
            self._send(down)

    def _learn(self, key: ObjectKey, pod: JsonObject) -> list[ObjectKey]:
        self._pods[""].pop(key, None)  # a pod without a node may be given one, and keeps it
        self._pods[_node_of(pod)][key] = None
        return self._locations.learn(pod)

    def _lacking(self, node: str) -> dict[str, Sync]:
        """What a node was to have, or to delete, and has not acknowledged, by uid."""
        return {uid: sync for uid, sync in self._syncs.of(node).items() if self._is_lacking(node, uid, sync)}

    def _is_lacking(self, node: str, uid: str, sync: Sync) -> bool:
        live = self._live(sync.key, uid)
        return live is None or self._syncs.is_needed(node, uid, int(version_of(live)))

    def _send_missing(self, node: str, lacking: dict[str, Sync], wanted: Iterable[ObjectKey] = ()) -> None:
        """Sends what a node lacks, and what it is to have from now on. Pods come last: the node need not ask for what
        they need.
        """
        for uid, sync in lacking.items():
            if self._live(sync.key, uid) is None:
                self._send_deletion(node, uid, sync)
        keys = dict.fromkeys([*(sync.key for sync in lacking.values()), *wanted])
        self._send_objects(node, sorted(keys, key=lambda key: (key.kind == _POD.name, key)))

    def _live(self, key: ObjectKey, uid: str) -> JsonObject | None:
        """The object of this uid; None when it is gone, whoever has its name now."""
        obj = self._cluster.store.find(key)
        return obj if obj is not None and uid_of(obj) == uid else None

    def _send_deletion(self, node: str, uid: str, sync: Sync) -> None:
        """Of what an edge deletes by name, a successor takes the place; of pods it must hear each deletion."""
        if sync.key.kind == _NODE.name or (sync.key.kind != _POD.name and self._cluster.store.find(sync.key)):
            self._syncs.gone(node, uid)
        else:
            self._send(deletion_of_unknown(node, sync.key, uid))

    def _send_objects(self, node: str, keys: Iterable[ObjectKey]) -> None:
        """Sends objects in the versions that the node has not got."""
        for key in keys:
            obj = self._cluster.store.find(key)
            if obj is None or not self._syncs.is_needed(node, uid_of(obj), int(version_of(obj))):
                continue
            if self._may_have(node, key):
                self.send(self._message_for(node, key, obj))

    def _message_for(self, node: str, key: ObjectKey, obj: JsonObject) -> Downstream:
        """The operation is that of its first sending, unless the node has it in an older version."""
        sync = self._syncs.of(node).get(uid_of(obj))
        has_older = sync is not None and sync.version > 0
        is_update = has_older or key.kind in _FIRST_AS_UPDATE or is_being_deleted(obj)
        return message(node, Operation.UPDATE if is_update else Operation.INSERT, key, obj)

    def _holders(self, event: ObjectEvent) -> list[str]:
        """Of storage drivers all nodes hear: they cannot ask, KubeEdge's cloud having no answer."""
        if event.key.kind == _DRIVER.name:
            return [node["metadata"]["name"] for node in self._cluster.list(_NODE)]
        holders = dict.fromkeys(self._locations.nodes_of(event.key))
        if event.change is Change.DELETED:
            return [*(holders | dict.fromkeys(self._syncs.holders(uid_of(event.new))))]
        return [node for node in holders if self._may_have(node, event.key)]


def _node_of(pod: JsonObject) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
