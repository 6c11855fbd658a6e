"""Draws plans from seeds: a workload, and faults according to a profile."""

import random
from collections.abc import Mapping
from enum import StrEnum

from modules.lab.simulate import draw_api, draw_devices, draw_more, draw_rollouts, draw_scenes, draw_state
from modules.lab.simulate.plan import DeviceStep, Fault, FaultKind, Plan, RolloutStep, ServiceStep, Shape, WorkloadStep
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
        devices: number of devices of each node; none with the profile `state`, whose second cloudcore serves none.
    """
    draw = random.Random(f"{seed} plan")  # noqa: S311 - reproducible on purpose
    steps: list[WorkloadStep] = []
    faults: list[Fault] = []
    for node in range(nodes):
        steps += _workload(draw, node, seconds, pods)
        faults += _faults(draw, node, seconds, _KINDS[profile])
    more = random.Random(f"{seed} more")  # noqa: S311 - a generator of its own keeps the older draws
    for node in range(nodes):
        steps += draw_more.config_lifetimes(more, node, seconds) + draw_more.static_pods(more, node, seconds)
        steps += draw_more.flapping(more, node, seconds)
        if FaultKind.CUT in _KINDS[profile]:
            faults += draw_more.roaming(more, node, seconds) + draw_more.lost_answers(more, node, seconds)
            faults += draw_more.late_answers(more, node, seconds)
    writes = list(draw_more.writes(more, steps, seconds))
    first_version = draw_more.first_version(more)
    into_nodes = random.Random(f"{seed} nodes")  # noqa: S311 - as above
    for node in range(nodes):
        writes += draw_more.node_writes(into_nodes, node, seconds)
    scenes = random.Random(f"{seed} scenes")  # noqa: S311 - as above
    for node in range(nodes):
        scene = draw_scenes.scene(scenes, node, seconds, _KINDS[profile])
        steps += scene.steps
        faults += scene.faults
        writes += scene.writes
    crashes = random.Random(f"{seed} crashes")  # noqa: S311 - as above
    for node in range(nodes):
        scene = draw_scenes.crash(crashes, node, seconds, _KINDS[profile])
        probed, unwell = draw_more.probed_pods(crashes, node, seconds, fail=bool(_KINDS[profile]))
        steps += [*scene.steps, *probed]
        faults += [*scene.faults, *unwell]
    if FaultKind.CLOUD_RESTART in _KINDS[profile] and not hostile:  # who attacks must not make a module fail
        faults += draw_more.database_faults(random.Random(f"{seed} database"), seconds)  # noqa: S311 - as above
    of_devices = random.Random(f"{seed} devices")  # noqa: S311 - as above
    device_steps: list[DeviceStep] = []
    in_a_cluster = cluster or keeps_state or profile in (FaultProfile.API, FaultProfile.STATE)
    for node in range(nodes if devices and profile is not FaultProfile.STATE else 0):
        device_steps += draw_devices.devices(of_devices, node, seconds, devices)
        faults += draw_devices.broker_faults(of_devices, node, seconds) if _KINDS[profile] else []
    rollouts: list[RolloutStep] = []
    if workloads and not in_a_cluster:
        of_rollouts = random.Random(f"{seed} rollouts")  # noqa: S311 - as above
        rollouts = draw_rollouts.rollouts(of_rollouts, seconds)
        faults += draw_rollouts.absences(of_rollouts, nodes, seconds) if _KINDS[profile] else []
        faults = [draw_rollouts.kept(fault) for fault in faults]
    of_publications = random.Random(f"{seed} publications")  # noqa: S311 - as above
    if device_steps:
        device_steps += draw_devices.models(random.Random(f"{seed} models"), seconds)  # noqa: S311 - as above
    of_lockouts = random.Random(f"{seed} lockouts")  # noqa: S311 - as above
    faults += draw_more.lockouts(of_lockouts, nodes, seconds) if lockouts else []
    served: list[ServiceStep] = []
    if services:
        served = service_steps(random.Random(f"{seed} services"), "shop", nodes, seconds)  # noqa: S311 - as above
        second = random.Random(f"{seed} second service")  # noqa: S311 - as above
        served += service_steps(second, "bank", nodes, seconds, may_go=True)
        writes += group_writes(random.Random(f"{seed} groups"), nodes, seconds)  # noqa: S311 - as above
    return Plan(
        seed=seed,
        nodes=nodes,
        seconds=seconds,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        uploads=_UPLOADS,
        publications=draw_devices.publications(of_publications, seconds) if device_steps else (),
        writes=tuple(sorted(writes, key=lambda write: write.at)),
        first_version=first_version,
        hostile=hostile,
        cluster=in_a_cluster,
        streams=streams or profile is FaultProfile.STATE,
        compares_sizes=compares_sizes and seed % 4 == 0,
        keeps_state=keeps_state or (profile is FaultProfile.STATE and seed % 3 == 0),
        devices=tuple(sorted(device_steps, key=lambda step: step.at)),
        rollouts=tuple(sorted(rollouts, key=lambda step: step.at)),
        services=tuple(sorted(served, key=lambda step: step.at)),
    )


def calm_plan(seed: int, *, nodes: int, seconds: float, pods: int) -> Plan:
    """Return a plan without faults, with pods that keep running: for measurements."""
    steps = [
        WorkloadStep(round(pod * 0.1 + node * 0.01, 3), f"pod-{node}-{pod}", Shape.PLAIN, node)
        for node in range(nodes)
        for pod in range(pods)
    ]
    return Plan(seed, nodes, seconds, tuple(sorted(steps, key=lambda step: step.at)), ())


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


def _faults(draw: random.Random, node: int, seconds: float, kinds: tuple[FaultKind, ...]) -> list[Fault]:
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
