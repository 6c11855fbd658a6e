"""Who changed what, and how far it got: the rows of the change journal, with the state of nodes and pods.

A node reports the versions of objects that it has stored; a pod's status shows whether it runs. Without either it is
unknown.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from modules.apimachinery.printing.ages import seconds_of
from modules.insight.fleet.rollouts import FAIL, RUN, UNDER_WAY, UNHEARD, part_of
from modules.insight.fleet.rows import FleetPodRow

if TYPE_CHECKING:
    from modules.cloud.object_writes import ObjectWrite

_POD: Final = "Pod"
_WORKLOADS: Final = ("Deployment", "ReplicaSet", "ReplicationController", "DaemonSet", "StatefulSet", "Job")
_TEMPLATE: Final = "spec.template"
_CREATED, _DELETING, _DELETED = "created", "deleting", "deleted"
_NODE: Final = "Node"
_HELD: Final = ("ConfigMap", "Secret", "Service", "Device.devices.kubeedge.io", "DeviceModel.devices.kubeedge.io")
"""Kinds that nodes get."""
_REPLICA_SET: Final = "ReplicaSet"
_JOB: Final = "Job"
_MOST_NAMES: Final = 3

DONE: Final = "good"
WAITS: Final = "warn"
FAILS: Final = "bad"
UNKNOWN: Final = "never"
"""Marks of how far a change got, as the page draws them."""
_MARKS: Final = {RUN: DONE, UNDER_WAY: WAITS, FAIL: FAILS, UNHEARD: UNKNOWN}


class Holders(msgspec.Struct, frozen=True):
    """The nodes that have an object."""

    number: int = 0
    """-1 if that is not known."""
    acknowledged: int = 0
    """Of these, the nodes that have stored the version of the write, or a later one."""
    behind: Sequence[str] = ()
    """Some of the others."""


class ChangeRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change in a table."""

    at: float
    """Seconds since 1970."""
    user: str
    verb: str
    kind: str
    namespace: str
    name: str
    version: int
    manager: str = ""
    node: str = ""
    fields: Sequence[str] = ()
    more: int = 0
    reached: str = ""
    """How far it got."""
    mark: str = ""
    """`good`, `warn`, `bad`, or `never` for unknown; empty for a change that concerns no node."""
    part: int = 0
    """Of an access, its place after the write of this version."""

    @property
    def key(self) -> str:
        """Kind, namespace and name, as commands take them."""
        return "/".join(each for each in (self.kind.partition(".")[0].lower(), self.namespace, self.name) if each)


class ChangeReach:
    """The reach of changes: how far they got.

    Args:
        pods: of the namespaces with changed objects.
        away: the nodes that are away, or were never connected.
        known: the nodes that exist; None if that is not known.
    """

    def __init__(
        self, pods: Sequence[FleetPodRow], away: Collection[str], known: Collection[str] | None = None
    ) -> None:
        self._pods = {each.key: each for each in pods}
        self._of: defaultdict[tuple[str, str], list[FleetPodRow]] = defaultdict(list)
        for pod in pods:
            self._of[pod.namespace, pod.owner].append(pod)
        self._away = away
        self._known = known

    def rows(self, writes: "Sequence[tuple[ObjectWrite, Holders]]") -> list[ChangeRow]:
        """Return rows of writes, the newest first."""
        later: set[tuple[str, str, str]] = set()
        rows = []
        for write, holders in writes:
            mark, reached = self.of(write, holders, is_newest=(key := _key(write)) not in later)
            if write.verb != "changed" or _is_of_template(write):
                later.add(key)
            rows.append(
                ChangeRow(
                    write.at, write.user, write.verb, write.kind, write.namespace, write.name, write.version,
                    write.manager, write.node, write.fields, write.more, reached, mark, write.part,
                )
            )  # fmt: skip
        return rows

    def of(self, write: "ObjectWrite", holders: Holders, *, is_newest: bool = True) -> tuple[str, str]:
        """Return the mark and the words of how far a write got.

        Args:
            write: the write.
            holders: the nodes that have its object.
            is_newest: whether no later write has made or deleted the object, or changed its pods' template.
        """
        if write.kind == _POD:
            return self._of_pod(write, holders, is_newest=is_newest)
        if write.kind in _WORKLOADS:
            return self._of_workload(write) if is_newest else ("", "a later change has taken its place")
        number, stored = holders.number, holders.acknowledged
        if number < 0 and write.kind in _HELD:
            return UNKNOWN, "unknown: cloudcore's database is in memory"
        if number <= 0 or write.kind == _NODE:
            return "", ""
        if write.verb in (_DELETING, _DELETED):
            return WAITS, f"{_have(number, number)} not confirmed that it is gone{self._named(holders.behind, ': ')}"
        if stored == number:
            return DONE, f"{_have(number, number)} it"
        return WAITS, f"{_have(stored, number)} it; not confirmed by {self._named(holders.behind, '')}"

    def _of_pod(self, write: "ObjectWrite", holders: Holders, *, is_newest: bool) -> tuple[str, str]:
        pod = self._pods.get(f"{write.namespace}/{write.name}")
        if pod is None:
            return "", "gone" if write.verb == _DELETED else "the pod is gone"
        is_of_former = not is_newest or int(write.at) < (seconds_of(pod.created) or 0.0)
        if is_of_former or write.verb == _DELETED:
            again = write.verb in (_DELETING, _DELETED)
            return "", "a pod of this name is there again" if again else "the pod is gone, and another has its name"
        if not pod.node:
            return WAITS, "waits for a node"
        if self._known is not None and pod.node not in self._known:
            return WAITS, f"there is no node {pod.node}"
        if pod.node in self._away:
            known = " has it, and" if holders.acknowledged else " has not confirmed it, and"
            known = known if holders.number >= 0 else ""
            return UNKNOWN, f"{pod.node}{known} is away: the pod's state is unknown"
        if holders.number >= 0 and not holders.acknowledged:
            return WAITS, f"{pod.node} has not confirmed it"
        if write.verb == _DELETING:
            return WAITS, f"{pod.node} is ending the pod"
        said = f"{pod.node} has it: {pod.status}" if holders.acknowledged else f"on {pod.node}: {pod.status}"
        return _MARKS[part_of(pod, is_unheard=False)], said

    def _of_workload(self, write: "ObjectWrite") -> tuple[str, str]:
        owned = self._of.get((write.namespace, f"{write.kind} {write.name}"), [])
        if write.kind == _REPLICA_SET and not owned:
            return "", ""  # its pods count to its Deployment
        if write.verb in (_DELETING, _DELETED):
            left = f"{_count(len(owned), 'pod')} of it {'is' if len(owned) == 1 else 'are'} left{self._where(owned)}"
            return (WAITS, left) if owned else (DONE, "no pod of it is left")
        if not owned:
            return "", "it has no pod"
        if write.verb != _CREATED and not _is_of_template(write):
            return self._counted(owned, "pod", write.kind)
        made = [each for each in owned if (seconds_of(each.created) or 0.0) >= int(write.at)]
        older = _count(len(owned) - len(made), "older pod")
        if not made:
            return WAITS, f"no pod was made since; {older}"
        mark, words = self._counted(made, "new pod", write.kind)
        return (mark, words) if len(made) == len(owned) else (WAITS if mark == DONE else mark, f"{words}; {older}")

    def _counted(self, pods: Sequence[FleetPodRow], noun: str, kind: str) -> tuple[str, str]:
        """Return how many pods run; pods on nodes that are away are unknown."""
        parts: defaultdict[str, list[FleetPodRow]] = defaultdict(list)
        for pod in pods:
            parts[part_of(pod, is_unheard=pod.node in self._away)].append(pod)
        run = "ran or run" if kind == _JOB else "runs" if len(parts[RUN]) == 1 else "run"
        words = [f"{len(parts[RUN])} of {_count(len(pods), noun)} {run}{self._where(parts[RUN])}"]
        if parts[UNDER_WAY]:
            words.append(f"{len(parts[UNDER_WAY])} under way{self._where(parts[UNDER_WAY])}")
        if failing := parts[FAIL]:
            reasons = ", ".join(sorted({each.status for each in failing})[:_MOST_NAMES])
            words.append(f"{len(failing)} {'fails' if len(failing) == 1 else 'fail'} ({reasons}){self._where(failing)}")
        if parts[UNHEARD]:
            words.append(f"{len(parts[UNHEARD])} unknown{self._where(parts[UNHEARD])}")
        return next((_MARKS[each] for each in (FAIL, UNDER_WAY, UNHEARD) if parts[each]), DONE), "; ".join(words)

    def _where(self, pods: Sequence[FleetPodRow]) -> str:
        return self._named(sorted({each.node for each in pods if each.node}), " on ")

    def _named(self, nodes: Sequence[str], before: str) -> str:
        """Return the names of a few nodes, and whether there are more."""
        named = [f"{each} (away)" if each in self._away else each for each in nodes[:_MOST_NAMES]]
        return f"{before}{', '.join(named)}{' and others' if len(nodes) > _MOST_NAMES else ''}" if nodes else ""


def changes_sentence(rows: Sequence[ChangeRow], more: int, *, is_reach_known: bool = True) -> str:
    """Return the first sentence of a page of changes, without how far they got where that is not known."""
    if not rows:
        return "Nothing has changed here in the last seven days."
    counts = {mark: sum(row.mark == mark for row in rows) for mark in (FAILS, WAITS, UNKNOWN)}
    words = {FAILS: "with pods that fail", WAITS: "on the way", UNKNOWN: "unknown, because a node is away"}
    said = ", ".join(f"{counts[mark]} {text}" for mark, text in words.items() if counts[mark])
    head = f"{_count(len(rows) + more, 'change')} in seven days"
    if not is_reach_known:
        return f"{head}."
    newest = f"; of the newest {len(rows)}" if more else ""
    if not said:
        return f"{head}{newest or ':'} nothing more is on its way to a node."
    return f"{head}{newest}: {said}."


def _key(write: "ObjectWrite") -> tuple[str, str, str]:
    return write.kind, write.namespace, write.name


def _is_of_template(write: "ObjectWrite") -> bool:
    return any(each.startswith(_TEMPLATE) for each in write.fields)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _have(number: int, total: int) -> str:
    said = _count(number, "node") if number == total else f"{number} of {_count(total, 'node')}"
    return f"{said} {'has' if 1 in (number, total) else 'have'}"
