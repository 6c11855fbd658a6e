"""What a turn is to write at its end, and within it what the message at hand would add to that."""

from typing import Any

from modules.edgecontroller.kinds import ObjectKey
from modules.edgecontroller.store import Change, ObjectEvent
from modules.edgecontroller.syncs import Sync


class Pending:
    """Rows to be written; one for each object, sync and session, whatever happened to it before."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, dict[str, Any]] = {}
        self.syncs: dict[tuple[str, str], Sync | None] = {}
        """By node and uid; None: none any more."""
        self.sessions: dict[str, int] = {}
        self.forgotten: set[str] = set()
        """Nodes of which nothing that was written before is known any more."""

    def __bool__(self) -> bool:
        return bool(self.objects or self.syncs or self.sessions or self.forgotten)

    def put(self, event: ObjectEvent) -> None:
        """A change of an object, as its row."""
        self.objects[event.key] = _row(event)

    def forget_node(self, node: str) -> None:
        """Nothing is known any more of what a node has."""
        self.syncs = {key: sync for key, sync in self.syncs.items() if key[0] != node}
        self.forgotten.add(node)

    def syncs_of(self, node: str, known: dict[str, Sync]) -> dict[str, Sync]:
        """What a node has, by uid.

        Args:
            node: which.
            known: what it had before.
        """
        before: dict[str, Sync | None] = {} if node in self.forgotten else {**known}
        before |= {uid: sync for (whose, uid), sync in self.syncs.items() if whose == node}
        return {uid: sync for uid, sync in before.items() if sync is not None}

    def add(self, later: "Pending") -> None:
        """Takes over what came after it, and leaves that empty."""
        for node in later.forgotten:
            self.forget_node(node)
        self.objects |= later.objects
        self.syncs |= later.syncs
        self.sessions |= later.sessions
        later.clear()

    def clear(self) -> None:
        """Nothing is to be written."""
        for part in (self.objects, self.syncs, self.sessions, self.forgotten):
            part.clear()


def _row(event: ObjectEvent) -> dict[str, Any]:
    body = None if event.change is Change.DELETED else event.body
    return {**event.key._asdict(), "revision": int(event.new["metadata"]["resourceVersion"]), "body": body}
