"""Invariants between the statuses that a node finds and those in the cloud."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from beehive.decoding import convert
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.node_conditions import OURS
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.types import Pod, PodStatus, to_value
from modules.lab.simulate.world import World

_LONGEST: Final = 200
"""Characters of each value that are shown."""
_LATE: Final = 180.0
"""Seconds after which a cloudcore has handled the messages that a node had sent to it: it lists all objects at its
start, and has a minute for each request.
"""


class StatusWatch:
    """The check that each status in the cloud was found by the node, in the same order.

    Another writer's change is allowed until the node has corrected it. Mirrors are left out, because a mirror may
    outlive its static pod. One instance serves all nodes.

    Args:
        world: collects violations.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: dict[str, list[PodStatus]] = {}
        """Statuses that a node has found, in their order, by uid."""
        self._at: dict[str, int] = {}
        """Index of the last of them that the cloud has."""
        self._others: dict[str, float] = {}
        """Uids of pods whose status another writer has changed, and until when that may show."""
        self._writing: dict[str, int] = {}
        """Uids of pods whose status other writers are changing, and the number of these writes. The node's own status
        may be stored before such a write, which waits for a database that refuses transactions."""
        self._names: Counter[str] = Counter()
        """Names of pods whose status other writers are changing: another pod may have the name by then."""
        self._last_writer: dict[str, str] = {}
        """Who wrote the status of a pod last, and when, by uid."""
        self.behind = 0.0
        """Seconds during which the cloud may not know of another writer's change: a watch of a cluster is silent."""
        self.late_until = -1.0
        """Until when a cloudcore that a node has left may handle messages that the node had sent to it: the status in
        the cloud is then an older one, until the node has corrected it.
        """

    def leave_cloudcore(self) -> None:
        """Note that nodes begin to go to another cloudcore."""
        self.late_until = self._world.now() + _LATE

    def found(self, pods: tuple[Pod, ...]) -> None:
        """Note the statuses of a node's pods."""
        for pod in pods:
            known = self._found.setdefault(pod.metadata.uid, [])
            status = own_part(pod.status)
            if not known or known[-1] != status:
                known.append(status)

    def last_writer(self, uid: str) -> str:
        """Return who wrote the status of a pod last, and when, as text."""
        return self._last_writer.get(uid, "nobody")

    def others_write(self, pod: JsonObject, what: str = "another writer") -> Callable[[], None]:
        """Note that another writer is about to change a pod's status, `what` says which; the result is called when the
        write has ended.
        """
        uid = runs_as(pod)
        self._wrote(uid, what)
        self._others[uid] = self._world.now() + self.behind
        self._writing[uid] = self._writing.get(uid, 0) + 1
        name = pod["metadata"]["name"]
        self._names[name] += 1

        def ended() -> None:
            self._names[name] = max(0, self._names[name] - 1)
            if uid in self._writing:
                self._others[uid] = self._world.now() + self.behind
                self._writing[uid] -= 1
                if not self._writing[uid]:
                    del self._writing[uid]

        return ended

    def writes_lost(self) -> None:
        """Note that the API server is killed: no write is under way."""
        self._writing.clear()
        self._names.clear()

    def stored(self, old: JsonObject, new: JsonObject) -> None:
        """Check a changed pod in the cloud."""
        if old.get("status") == new.get("status") or runs_as(new) != new["metadata"]["uid"]:
            return
        uid, status = runs_as(new), own_part(convert(new.get("status") or {}, PodStatus))
        if own_part(convert(old.get("status") or {}, PodStatus)) == status:
            return
        known, begin = self._found.get(uid, []), self._at.get(uid, 0)
        at = next((number for number in range(begin, len(known)) if known[number] == status), None)
        if at is not None:
            self._at[uid] = at
            self._wrote(uid, "its node")
            if uid not in self._writing and self._others.get(uid, 0.0) <= self._world.now():
                self._others.pop(uid, None)
        elif self._world.now() < self.late_until or self._names[new["metadata"]["name"]] > 0:
            self._others.setdefault(uid, self._world.now())
        elif uid not in self._others:
            older = status in known
            invariant = "no older state over a newer one" if older else "the cloud has what the node found"
            what = "an older status again" if older else "a status that its node never found"
            newest = known[-1] if known else PodStatus()
            text = f"{new['metadata']['name']} ({uid[:8]}) has {what}: {fields_unlike(status, newest)}"
            self._world.violated(invariant, f"{text}; last written by {self.last_writer(uid)}")

    def _wrote(self, uid: str, who: str) -> None:
        self._last_writer[uid] = f"{who} at {self._world.now():.3f} s"


def runs_as(pod: JsonObject) -> str:
    """Return the node's uid of a pod of the cloud; for a mirror the static pod's."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(CONFIG_MIRROR) or pod["metadata"]["uid"])


def own_part(status: PodStatus) -> PodStatus:
    """Return the part of a status that its node owns."""
    own = tuple(sorted((one for one in status.conditions if one.type in OURS), key=lambda one: one.type))
    return msgspec.structs.replace(status, conditions=own, qos_class="", nominated_node_name="", resize="")


def unlike(has: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield each field that differs as a line, with both values: objects and lists are compared member by member."""
    if isinstance(has, dict) and isinstance(wanted, dict):
        for name in sorted(has.keys() | wanted.keys()):
            yield from unlike(has.get(name), wanted.get(name), f"{path}.{name}" if path else name)
    elif isinstance(has, list) and isinstance(wanted, list) and len(has) == len(wanted):
        for number, (one, other) in enumerate(zip(has, wanted, strict=True)):
            yield from unlike(one, other, f"{path}[{number}]")
    elif has != wanted:
        yield f"{path} is {_brief(has)}, not {_brief(wanted)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def fields_unlike(has: PodStatus, found: PodStatus) -> str:
    """Return the fields where a status of the cloud differs from its node's."""
    return "; ".join(unlike(to_value(has), to_value(found)))
