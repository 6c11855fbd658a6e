"""Draws plans from seeds: a workload, and faults according to a profile."""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum

from modules.lab.simulate import draw_api, draw_devices, draw_more, draw_pair, draw_rollouts, draw_scenes, draw_state
from modules.lab.simulate.plan import (
    DeviceStep,
    Fault,
    FaultKind,
    Plan,
    RolloutStep,
    ServiceStep,
    Shape,
    WorkloadStep,
    Write,
)
from modules.lab.simulate.service_documents import group_writes, service_steps

_LINK = (
    FaultKind.CUT,
    FaultKind.HALF_OPEN,
    FaultKind.DEAF,
    FaultKind.MUTE,
    FaultKind.DELAY,
    FaultKind.DUPLICATE,
    FaultKind.REORDER,
)
_CLOUD = (FaultKind.CLOUD_RESTART, FaultKind.CLOUD_AMNESIA, FaultKind.LATE_ANSWERS, FaultKind.NO_ANSWERS)
_PROCESS = (FaultKind.KILL, FaultKind.KILL, FaultKind.KILL, FaultKind.RESTART, FaultKind.REBOOT)
_DISK = (FaultKind.DISK_FULL, FaultKind.STORE_LOCKED, FaultKind.SLOW_DISK, FaultKind.STORE_LOST)
_RUNTIME = (
    FaultKind.CRI_FAILS,
    FaultKind.CRI_LOSES_ANSWERS,
    FaultKind.CRI_SLOW,
    FaultKind.RELIST_FAILS,
    FaultKind.EVENTS_LOST,
    FaultKind.EVENTS_LATE,
    FaultKind.EVENTS_TWICE,
    FaultKind.EVENTS_CUT,
    FaultKind.CONTAINER_DIES,
    FaultKind.SANDBOX_DIES,
    FaultKind.IMAGES_MISSING,
)
_CLOCK = (FaultKind.CLOCK_JUMP,)


class FaultProfile(StrEnum):
    """Group of faults that are drawn."""

    NONE = "none"
    LINK = "link"
    PROCESS = "process"
    DISK = "disk"
    RUNTIME = "runtime"
    CLOUD = "cloud"
    API = "api"
    STATE = "state"
    PAIR = "pair"
    ALL = "all"


_KINDS: Mapping[FaultProfile, tuple[FaultKind, ...]] = {
    FaultProfile.NONE: (),
    FaultProfile.LINK: _LINK,
    FaultProfile.PROCESS: _PROCESS,
    FaultProfile.DISK: _DISK,
    FaultProfile.RUNTIME: _RUNTIME,
    FaultProfile.CLOUD: _CLOUD + _LINK,
    FaultProfile.API: draw_api.API,
    FaultProfile.STATE: draw_state.STATE,
    FaultProfile.PAIR: draw_pair.PAIR,
    FaultProfile.ALL: _LINK + _CLOUD + _PROCESS + _DISK + _RUNTIME + _CLOCK,
}
_SHAPES = (
    Shape.PLAIN,
    Shape.PLAIN,
    Shape.CRASHES,
    Shape.COMPLETES,
    Shape.FAILS_ONCE,
    Shape.INIT,
    Shape.TWO,
    Shape.MOUNTS,
)
_UPLOADS = 3.0
"""Seconds between two uploads of a node."""
_AMOUNTS: Mapping[FaultKind, tuple[float, ...]] = {
    FaultKind.KILL: (1, 5, 20, 100),
    FaultKind.DELAY: (0.3, 1.0, 3.0, 6.0),
    FaultKind.LATE_ANSWERS: (2.0, 20.0, 62.0, 75.0),
    FaultKind.SLOW_DISK: (0.2, 2.0),
    FaultKind.CRI_FAILS: (0.2, 0.5, 1.0),
    FaultKind.CRI_LOSES_ANSWERS: (0.2, 0.5, 1.0),
    FaultKind.CRI_SLOW: (1.0, 5.0),
    FaultKind.EVENTS_LOST: (0.3, 1.0),
    FaultKind.EVENTS_LATE: (0.1, 3.0, 30.0),
    FaultKind.EVENTS_TWICE: (0.3, 1.0),
    FaultKind.CLOCK_JUMP: (-3600.0, -30.0, -1.0, 1.0, 30.0, 3600.0),
    **draw_api.AMOUNTS,
    **draw_state.AMOUNTS,
    **draw_pair.AMOUNTS,
}
"""Possible values of `Fault.amount`."""

_MOMENTS = frozenset(
    {
        FaultKind.KILL,
        FaultKind.DUPLICATE,
        FaultKind.CLOCK_JUMP,
        FaultKind.CONTAINER_DIES,
        FaultKind.SANDBOX_DIES,
        FaultKind.RESTART,
        FaultKind.REBOOT,
        FaultKind.STORE_LOST,
    }
)
"""Faults without duration."""

_BETWEEN_FAULTS = (6.0, 25.0, 60.0)
"""Average seconds between two faults; one value is drawn for each node, because some bugs need many faults and some
few.
"""


def draw_plan(
    seed: int,
    *,
    nodes: int = 1,
    seconds: float = 240.0,
    profile: FaultProfile = FaultProfile.ALL,
    pods: int = 5,
    hostile: float = 0.0,
    cluster: bool = False,
    devices: int = 0,
    keeps_state: bool = False,
    compares_sizes: bool = False,
    workloads: bool = False,
    services: bool = False,
    lockouts: bool = False,
    streams: bool = False,
) -> Plan:
    """Return the plan of a seed; it depends only on the arguments.

    Args:
        seed: decides everything that is drawn.
        nodes: number of nodes.
        seconds: seconds with faults and changes.
        profile: faults that are drawn.
        pods: number of pods of each node.
        hostile: seconds between two messages of a hostile node; 0 for no such node.
        cluster: whether cloudcore works with the API server of a cluster; always with the profiles `api` and `state`.
        keeps_state: whether cloudcore keeps its state of nodes in the cluster; with the profile `state` every third
            seed does.
        compares_sizes: whether every fourth seed compares what its nodes keep in memory with what they keep after a
            restart.
        workloads: whether people roll out Deployments and their likes, while nodes are away; not in a cluster, whose
            controllers are its own.
        services: whether nodes follow two Services, as with edgemesh, which people change, and move between groups.
        lockouts: whether an administrator locks nodes out, and lets them in again.
        streams: whether there are stream tunnels and users who follow logs; always with the profile `state`.
        devices: number of devices of each node; none with the profiles `state` and `pair`, whose second cloudcore
            serves none.
    """
    kinds = _KINDS[profile]
    drawn = _Drawn(seed, nodes, seconds)
    drawn.lives(kinds, pods)
    first_version = drawn.surprises(kinds)
    drawn.scenes(kinds)
    if FaultKind.CLOUD_RESTART in kinds and not hostile:  # who attacks must not make a module fail
        drawn.faults += draw_more.database_faults(drawn.random("database"), seconds)
        drawn.faults += draw_pair.full_disks(drawn.random("full"), seconds)
    has_devices = devices > 0 and profile not in (FaultProfile.STATE, FaultProfile.PAIR)
    device_steps = drawn.devices(devices, has_faults=bool(kinds)) if has_devices else []
    in_a_cluster = cluster or keeps_state or profile in (FaultProfile.API, FaultProfile.STATE)
    paired = profile is FaultProfile.PAIR and not in_a_cluster
    rollouts = drawn.rollouts(has_faults=bool(kinds)) if workloads and not in_a_cluster and not paired else []
    if lockouts:
        drawn.faults += draw_more.lockouts(drawn.random("lockouts"), nodes, seconds)
    served = drawn.services() if services else []
    return Plan(
        seed=seed,
        nodes=nodes,
        seconds=seconds,
        steps=tuple(sorted(drawn.steps, key=lambda step: step.at)),
        faults=tuple(sorted(drawn.faults, key=lambda fault: fault.at)),
        uploads=_UPLOADS,
        publications=draw_devices.publications(drawn.random("publications"), seconds) if device_steps else (),
        writes=tuple(sorted(drawn.writes, key=lambda write: write.at)),
        first_version=first_version,
        hostile=hostile,
        cluster=in_a_cluster,
        paired=paired,
        watchers=bool(kinds) and FaultKind.CLOUD_RESTART in kinds,
        streams=streams or profile is FaultProfile.STATE,
        compares_sizes=compares_sizes and seed % 4 == 0,
        keeps_state=keeps_state or (profile is FaultProfile.STATE and seed % 3 == 0),
        devices=tuple(sorted(device_steps, key=lambda step: step.at)),
        rollouts=tuple(sorted(rollouts, key=lambda step: step.at)),
        services=tuple(sorted(served, key=lambda step: step.at)),
    )


class _Drawn:
    """The drawn parts of a plan. Each has a random generator of its own, so that a new part changes no older one."""

    def __init__(self, seed: int, nodes: int, seconds: float) -> None:
        self._seed = seed
        self._nodes = nodes
        self._seconds = seconds
        self.steps: list[WorkloadStep] = []
        self.faults: list[Fault] = []
        self.writes: list[Write] = []

    def random(self, part: str) -> random.Random:
        """Return the generator of a part."""
        return random.Random(f"{self._seed} {part}")  # noqa: S311 - reproducible on purpose

    def lives(self, kinds: Sequence[FaultKind], pods: int) -> None:
        """Draw the pods and faults of each node."""
        draw = self.random("plan")
        for node in range(self._nodes):
            self.steps += _workload(draw, node, self._seconds, pods)
            self.faults += _faults(draw, node, self._seconds, kinds)

    def surprises(self, kinds: Sequence[FaultKind]) -> int:
        """Draw what happens beside that, and return the resourceVersion of the first object."""
        draw, seconds = self.random("more"), self._seconds
        for node in range(self._nodes):
            self.steps += draw_more.config_lifetimes(draw, node, seconds) + draw_more.static_pods(draw, node, seconds)
            self.steps += draw_more.flapping(draw, node, seconds)
            if FaultKind.CUT in kinds:
                self.faults += draw_more.roaming(draw, node, seconds) + draw_more.lost_answers(draw, node, seconds)
                self.faults += draw_more.late_answers(draw, node, seconds)
        self.writes += draw_more.writes(draw, self.steps, seconds)
        first_version = draw_more.first_version(draw)
        into_nodes = self.random("nodes")
        for node in range(self._nodes):
            self.writes += draw_more.node_writes(into_nodes, node, seconds)
        return first_version

    def scenes(self, kinds: Sequence[FaultKind]) -> None:
        """Draw scenes, crashes and probed pods of each node."""
        draw, seconds = self.random("scenes"), self._seconds
        for node in range(self._nodes):
            scene = draw_scenes.scene(draw, node, seconds, kinds)
            self.steps += scene.steps
            self.faults += scene.faults
            self.writes += scene.writes
        crashes = self.random("crashes")
        for node in range(self._nodes):
            scene = draw_scenes.crash(crashes, node, seconds, kinds)
            probed, unwell = draw_more.probed_pods(crashes, node, seconds, fail=bool(kinds))
            self.steps += [*scene.steps, *probed]
            self.faults += [*scene.faults, *unwell]

    def devices(self, number: int, *, has_faults: bool) -> list[DeviceStep]:
        """Return the steps of so many devices of each node, and draw the faults of its broker."""
        draw, steps = self.random("devices"), list[DeviceStep]()
        for node in range(self._nodes):
            steps += draw_devices.devices(draw, node, self._seconds, number)
            self.faults += draw_devices.broker_faults(draw, node, self._seconds) if has_faults else []
        return steps + draw_devices.models(self.random("models"), self._seconds) if steps else []

    def rollouts(self, *, has_faults: bool) -> list[RolloutStep]:
        """Return the rollouts, and draw absences of nodes."""
        draw = self.random("rollouts")
        rollouts = draw_rollouts.rollouts(draw, self._seconds)
        self.faults += draw_rollouts.absences(draw, self._nodes, self._seconds) if has_faults else []
        self.faults = [draw_rollouts.kept(fault) for fault in self.faults]
        return rollouts

    def services(self) -> list[ServiceStep]:
        """Return the changes of two Services, and draw moves of nodes between groups."""
        nodes, seconds = self._nodes, self._seconds
        steps = service_steps(self.random("services"), "shop", nodes, seconds)
        steps += service_steps(self.random("second service"), "bank", nodes, seconds, may_go=True)
        self.writes += group_writes(self.random("groups"), nodes, seconds)
        return steps


def _workload(draw: random.Random, node: int, seconds: float, pods: int) -> list[WorkloadStep]:
    steps = []
    for kind, name in ((Shape.CONFIGMAP, f"settings-{node}"), (Shape.SECRET, f"keys-{node}")):
        steps += _life(draw, name, kind, node, seconds, changes=2, may_go=False)
    for number in range(pods):
        shape = draw.choice(_SHAPES)
        prefix = "init" if shape is Shape.INIT else "pod"
        steps += _life(draw, f"{prefix}-{node}-{number}", shape, node, seconds, draw.randint(0, 4), may_go=True)
    return steps


def _life(
    draw: random.Random, name: str, shape: Shape, node: int, seconds: float, changes: int, *, may_go: bool
) -> list[WorkloadStep]:
    """Draw one object: created early, then changed, deleted and created again."""
    steps = [WorkloadStep(round(draw.uniform(0, seconds / 4), 3), name, shape, node)]
    times = sorted(round(draw.uniform(steps[0].at, seconds), 3) for _ in range(changes))
    revision = 1
    for at in times:
        gone = not steps[-1].revision
        if may_go and not gone and draw.random() < 0.6:
            steps.append(WorkloadStep(at, name, shape, node, revision=0))
            if draw.random() < 0.6:
                steps.append(WorkloadStep(round(at + draw.choice((0.05, 1.0, 8.0)), 3), name, shape, node, revision))
        else:
            revision += 0 if gone else 1
            steps.append(WorkloadStep(at, name, shape, node, revision))
    return steps


def _faults(draw: random.Random, node: int, seconds: float, kinds: Sequence[FaultKind]) -> list[Fault]:
    faults: list[Fault] = []
    rate = 1 / draw.choice(_BETWEEN_FAULTS)
    at = draw.expovariate(rate)
    while kinds and at < seconds:
        faults.append(_fault(draw, round(at, 3), draw.choice(kinds), node, seconds))
        at += draw.expovariate(rate)
    return faults


def _fault(draw: random.Random, at: float, kind: FaultKind, node: int, seconds: float) -> Fault:
    lasts = min(draw.choice((0.5, 3.0, 12.0, 40.0)) * draw.uniform(0.5, 1.5), max(0.1, seconds - at))
    amount = draw.choice(_AMOUNTS[kind]) if kind in _AMOUNTS else 0.0
    match kind:
        case FaultKind.KILL:
            amount += draw.randrange(20)
        case FaultKind.DUPLICATE:
            amount = float(draw.randint(1, 10))
        case FaultKind.CONTAINER_DIES | FaultKind.SANDBOX_DIES:
            amount = float(draw.randrange(100))
        case FaultKind.STATE_DAMAGED | FaultKind.STATE_FILE_DAMAGED:
            amount = float(draw.randrange(1000))
        case _:
            pass
    lasts = 0.0 if kind in _MOMENTS else lasts
    return Fault(at, kind, node, round(lasts, 3), amount)
