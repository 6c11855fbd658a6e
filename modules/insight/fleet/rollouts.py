"""Which workloads do not run everywhere, on which nodes, and why: pods by the controller that owns them.

A pod on a node that is away is neither good nor bad: its node has not been heard, and that is counted apart.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from modules.insight.fleet.findings import shared_by
from modules.insight.fleet.lacks import Lack
from modules.insight.fleet.rows import FleetPodRow, NodeRow
from modules.insight.fleet.states import AWAY, NEVER

RUN: Final = "run"
UNDER_WAY: Final = "under way"
FAIL: Final = "fail"
UNHEARD: Final = "unheard"
"""The parts of a workload's pods; the nodes of the last are away."""
_UNDER_WAY: Final = ("Pending", "ContainerCreating", "PodInitializing", "Running", "Terminating")
_BEGINS: Final = "Init:"
_MOST_ROWS: Final = 200
_MOST_REASONS: Final = 8
_MOST_PODS: Final = 20


class FailingPods(msgspec.Struct, frozen=True):
    """Pods of a workload that fail for the same reason."""

    status: str
    """Their status as kubectl prints it."""
    why: str
    """The reason in the status of the first one."""
    shared: str
    """A property that all their nodes share, and not all nodes of the fleet; empty without one, and for one node."""
    pods: Sequence[FleetPodRow]
    more: int
    """Pods beyond these."""


class RolloutRow(msgspec.Struct, frozen=True):
    """A workload: its pods in four parts."""

    namespace: str
    owner: str
    """Kind and name."""
    images: Sequence[str]
    """Of the first containers of its pods; several while it is rolled out."""
    run: int
    under_way: int
    fail: int
    unheard: int
    """Pods whose nodes are away."""
    failing: Sequence[FailingPods]
    missing: int = 0
    """Pods that could not be made; they are among the failing pods."""
    lack: str = ""
    """Why pods are missing, or the rollout has stopped."""


class Rollouts(msgspec.Struct, frozen=True):
    """All workloads that have a pod, or lack one, failing ones first."""

    sentence: str
    rows: Sequence[RolloutRow]
    more: int
    """Workloads beyond these."""


def rollouts(pods: Sequence[FleetPodRow], nodes: Sequence[NodeRow], lacks: Sequence[Lack] = ()) -> Rollouts:
    """Return the workloads of a fleet.

    Args:
        pods: all pods.
        nodes: all nodes.
        lacks: the workloads that lack something.
    """
    known = {each.name: each for each in nodes}
    workloads: defaultdict[tuple[str, str], list[FleetPodRow]] = defaultdict(list)
    for pod in pods:
        if pod.owner:
            workloads[pod.namespace, pod.owner].append(pod)
    lacking = {(each.namespace, each.owner): each for each in lacks}
    keys = dict.fromkeys((*workloads, *lacking))
    rows = [_row(*key, workloads[key], known, lacking.get(key)) for key in keys]
    rows.sort(key=lambda row: (-row.fail, -row.under_way, -row.unheard, row.namespace, row.owner))
    return Rollouts(_sentence(rows), rows[:_MOST_ROWS], max(0, len(rows) - _MOST_ROWS))


def _row(
    namespace: str, owner: str, pods: Sequence[FleetPodRow], nodes: Mapping[str, NodeRow], lack: Lack | None
) -> RolloutRow:
    parts: defaultdict[str, list[FleetPodRow]] = defaultdict(list)
    for pod in sorted(pods, key=lambda each: each.key):
        parts[_part(pod, nodes.get(pod.node))].append(pod)
    reasons: defaultdict[str, list[FleetPodRow]] = defaultdict(list)
    for pod in parts[FAIL]:
        reasons[pod.status].append(pod)
    most = sorted(reasons.items(), key=lambda each: (-len(each[1]), each[0]))[:_MOST_REASONS]
    return RolloutRow(
        namespace=namespace,
        owner=owner,
        images=sorted({each.image for each in pods if each.image})[:_MOST_REASONS],
        run=len(parts[RUN]),
        under_way=len(parts[UNDER_WAY]),
        fail=len(parts[FAIL]) + (lack.missing if lack is not None else 0),
        unheard=len(parts[UNHEARD]),
        failing=[
            FailingPods(
                status, found[0].why, _shared(found, nodes), found[:_MOST_PODS], max(0, len(found) - _MOST_PODS)
            )
            for status, found in most
        ],
        missing=lack.missing if lack is not None else 0,
        lack=lack.why if lack is not None else "",
    )


def _part(pod: FleetPodRow, node: NodeRow | None) -> str:
    return part_of(pod, is_unheard=node is not None and node.state in (AWAY, NEVER))


def part_of(pod: FleetPodRow, *, is_unheard: bool) -> str:
    """Return the part of its workload that a pod counts for."""
    if is_unheard:
        return UNHEARD
    if not pod.is_troubled:
        return RUN
    return UNDER_WAY if pod.status in _UNDER_WAY or pod.status.startswith(_BEGINS) else FAIL


def _shared(pods: Sequence[FleetPodRow], nodes: Mapping[str, NodeRow]) -> str:
    found = {each.node: nodes[each.node] for each in pods if each.node in nodes}
    shared = shared_by(list(found.values())) if len(found) > 1 else ""
    return shared if shared != shared_by(list(nodes.values()) or [NodeRow("", "")]) else ""


def _sentence(rows: Sequence[RolloutRow]) -> str:
    if not rows:
        return "There are no workloads: no pod has a controller."
    counts = {
        FAIL: sum(row.fail > 0 or bool(row.lack) for row in rows),
        UNDER_WAY: sum(row.fail == 0 and not row.lack and row.under_way > 0 for row in rows),
        UNHEARD: sum(row.fail == row.under_way == 0 and not row.lack and row.unheard > 0 for row in rows),
    }
    good = len(rows) - sum(counts.values())
    if good == len(rows):
        return f"All {good} workloads run." if good > 1 else "The workload runs."
    if len(rows) == 1:
        part = next(part for part in counts if counts[part])
        fails = "fails on some node" if rows[0].failing else "lacks pods" if rows[0].missing else "has stopped"
        words = {FAIL: fails, UNDER_WAY: "is under way", UNHEARD: "has pods on nodes that are away"}
        return f"The workload {words[part]}."
    said = {
        FAIL: f"{counts[FAIL]} {'fails' if counts[FAIL] == 1 else 'fail'} on some node",
        UNDER_WAY: f"{counts[UNDER_WAY]} {'is' if counts[UNDER_WAY] == 1 else 'are'} under way",
        UNHEARD: f"{counts[UNHEARD]} {'has' if counts[UNHEARD] == 1 else 'have'} pods on nodes that are away",
    }
    return f"{good} of {len(rows)} workloads run; {', '.join(said[part] for part in said if counts[part])}."
