"""The pending writes of a transaction."""

from operator import attrgetter
from typing import Any, Final

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_sync import Epoch, NodeState, ObjectSync
from modules.cloud.storage.signing_key import StoredSigningKey
from modules.cloud.storage.stored_changes import stored_change

_SECRET: Final = "Secret"  # noqa: S105 - the kind
_KIND: Final = attrgetter("kind")


class PendingWrites:
    """Rows to write at the end of a transaction: the last state of each object, ObjectSync and session."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, dict[str, Any]] = {}
        self.changes: list[dict[str, Any]] = []
        """The rows of all changes of objects, in order."""
        self.history: dict[str, int] = {}
        """By kind, the version of its last deleted change."""
        self.gaps: dict[str, int] = {}
        """By kind, the version after which its changes are complete again; older ones may be kept, and are not."""
        self.object_syncs: dict[str, dict[str, ObjectSync | None]] = {}
        """By node, then by uid; None deletes the row."""
        self.sessions: dict[str, tuple[int, float]] = {}
        """By claimed node, the resourceVersion of the claim, and when the node connected, in seconds since 1970."""
        self.forgotten: set[str] = set()
        """Nodes whose earlier ObjectSyncs and states are deleted."""
        self.node_states: dict[str, NodeState] = {}
        self.released: set[str] = set()
        """Nodes whose earlier claims are deleted."""
        self.signing_keys: dict[str, StoredSigningKey | None] = {}
        """By id; None deletes the row."""
        self.epoch: Epoch | None = None
        self._parts: tuple[dict[Any, Any] | set[str] | list[Any], ...] = (
            self.objects, self.changes, self.history, self.gaps, self.object_syncs, self.sessions, self.forgotten,
            self.node_states, self.released, self.signing_keys,
        )  # fmt: skip

    def __bool__(self) -> bool:
        return bool(self.objects or self.object_syncs or self.sessions or self.forgotten or self.node_states
                    or self.released or self.epoch or self.history or self.gaps or self.signing_keys)  # fmt: skip

    @property
    def has_nodes(self) -> bool:
        """Whether there is something of nodes: acknowledgements, states, claims."""
        return bool(self.object_syncs or self.forgotten or self.released or self.node_states or self.sessions)

    @property
    def has_secrets(self) -> bool:
        """Whether a row has a secret, or had one."""
        return bool(self.signing_keys) or _SECRET in map(_KIND, self.objects)

    def put(self, event: ObjectEvent) -> None:
        """Add the rows of a changed object."""
        change = stored_change(event)
        kind, namespace, name = change.key
        row = {"revision": change.version, "kind": kind, "namespace": namespace, "name": name}
        self.objects[event.key] = {**row, "body": None if event.type is EventType.DELETED else event.body}
        self.changes.append({**row, "type": str(change.type), "body": change.body, "old": change.old})

    def leave_changes_out(self, version: int) -> None:
        """Write no changes, which let the database grow; the changes of their kinds are known after a version only."""
        self.gaps |= {row["kind"]: version for row in self.changes}
        self.changes.clear()

    def put_object_sync(self, node: str, uid: str, sync: ObjectSync | None) -> None:
        """Add an ObjectSync of a node; None deletes it."""
        self.object_syncs.setdefault(node, {})[uid] = sync

    def forget_node(self, node: str) -> None:
        """Delete the ObjectSyncs and the state of a node."""
        self.node_states.pop(node, None)
        self.object_syncs.pop(node, None)
        self.forgotten.add(node)

    def object_syncs_of(self, node: str, known: dict[str, ObjectSync]) -> dict[str, ObjectSync]:
        """Return the ObjectSyncs of a node, by uid.

        Args:
            node: its name.
            known: the ObjectSyncs before these writes.
        """
        before: dict[str, ObjectSync | None] = {} if node in self.forgotten else {**known}
        before |= self.object_syncs.get(node, {})
        return {uid: sync for uid, sync in before.items() if sync is not None}

    def node_state_of(self, node: str, known: NodeState) -> NodeState:
        """Return the state of a node.

        Args:
            node: its name.
            known: the state before these writes.
        """
        return self.node_states.get(node, NodeState() if node in self.forgotten else known)

    def release(self, node: str) -> None:
        """Delete the claim of a node."""
        self.sessions.pop(node, None)
        self.released.add(node)

    def nodes(self) -> set[str]:
        """Return the nodes whose ObjectSyncs or states are written."""
        return self.object_syncs.keys() | self.forgotten | self.node_states.keys()

    def add(self, later: "PendingWrites") -> None:
        """Add later writes, and clears those."""
        for node in later.forgotten:
            self.forget_node(node)
        for node in later.released:
            self.release(node)
        self.objects |= later.objects
        self.changes += later.changes
        self.history |= later.history
        for node, syncs in later.object_syncs.items():
            self.object_syncs.setdefault(node, {}).update(syncs)
        self.sessions |= later.sessions
        self.node_states |= later.node_states
        self.signing_keys |= later.signing_keys
        self.epoch = later.epoch or self.epoch
        later.clear()

    def clear(self) -> None:
        """Discard all writes."""
        for part in self._parts:
            part.clear()
        self.epoch = None
