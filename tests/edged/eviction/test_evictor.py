"""The evictor alone over random lives: whom it ends, when, and with which grace period."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.errors import EdgedError
from edged.eviction.decide import EvictionState, any_met, excess, judge, observe
from edged.eviction.evictor import Collectors, EvictionCallbacks, Evictor
from edged.eviction.rank import ranked
from edged.eviction_api.signals import PRESSURES, Pressure
from edged.eviction_api.thresholds import EvictionSettings, parse_thresholds
from edged.eviction_api.usage import ContainerUsage, DiskConsumption, PodUsage
from edged.node.machine import FileSystem, MachineUsage
from edged.pods.critical import is_critical
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from modules.apimachinery.types import Pod, Quantity, ResourceRequirements
from modules.lab.doubles.container_runtime.machine_info import PLENTY
from tests.edged.pods.builders import a_container, a_pod

MIB = 1 << 20
GIB = 1 << 30
SETTINGS = EvictionSettings(
    thresholds=parse_thresholds(
        {"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%"},
        {"memory.available": "1Gi"},
        {"memory.available": 30.0},
    ),
    longest_grace=40,
    transition=60.0,
)


class Machine:
    """A node with pods that are short of memory and disk, end late, and leave files."""

    def __init__(self, draw: Random, root: Path) -> None:
        self.draw, self.clock = draw, Simulation().clock
        self.left = PLENTY
        self.after_collection: MachineUsage | None = None
        self.pods: dict[str, Pod] = {}
        self.usages: dict[str, PodUsage] = {}
        self.evicted: list[tuple[str, int, bool]] = []
        self.pressures: list[frozenset[Pressure]] = []
        self.paths = PodPaths(root)
        self.containers, self.images = Mock(), Mock()
        self.containers.collect.side_effect = self._collect
        callbacks = EvictionCallbacks(lambda: tuple(self.pods.values()), self._evict, self.pressures.append)
        usage: Any = SimpleNamespace(node=lambda: self.left, pods=lambda **_options: dict(self.usages))
        self.evictor = Evictor(
            usage, SETTINGS, self.clock, self.paths, callbacks, Collectors(self.containers, self.images), Mock()
        )

    def _collect(self, *, all_unused: bool) -> None:
        assert all_unused
        self.images.remove_unused.assert_not_called()  # dead containers first: they keep their images in use
        if self.after_collection is not None:
            self.left = self.after_collection
        if self.draw.random() < 0.3:
            raise self.draw.choice([EdgedError("remove an image", "x", "it is busy"), OSError("the disk is worn")])

    def _evict(self, uid: PodUid, why: str, grace: int, disruption: bool) -> None:
        assert why
        self.evicted.append((uid, grace, disruption))

    def draw_left(self) -> MachineUsage:
        """Return what may be left of the node."""
        node, image = (FileSystem(self.draw.choice([5, 50]) * GIB, 100 * GIB, 2_000_000, 4_000_000) for _ in range(2))
        memory = self.draw.choice([50 * MIB, 500 * MIB, 4 * GIB, 4 * GIB])
        image_fs = image if self.draw.random() < 0.3 else None
        return replace(PLENTY, memory_available=memory, node_fs=node, image_fs=image_fs)

    def add(self, number: int) -> None:
        """A pod begins."""
        limits: dict[str, Quantity] = {"ephemeral-storage": "1Mi"} if self.draw.random() < 0.4 else {}
        priority, grace = self.draw.choice([0, 5, 2_000_000_000]), self.draw.choice([3, 20, 300])
        name = f"pod-{number}"
        self.pods[name] = a_pod(
            a_container("bb", resources=ResourceRequirements(limits=limits)),
            meta={"name": name, "uid": name}, priority=priority, termination_grace_period_seconds=grace,
        )  # fmt: skip
        size = self.draw.choice([0, 2 * MIB])
        self.usages[name] = PodUsage(
            name, self.draw.randrange(100) * MIB, 1,
            (ContainerUsage("bb", MIB, DiskConsumption(size)),), DiskConsumption(size),
        )  # fmt: skip
        self.paths.volumes(PodUid(name)).mkdir(parents=True)

    def change(self, name: str) -> None:
        """A pod goes one step on: it is to be deleted, ends, loses its files, is removed."""
        pod, volumes = self.pods[name], self.paths.volumes(PodUid(name))
        if pod.status.phase in ("Failed", "Succeeded") and self.draw.random() < 0.5:
            if volumes.exists():
                volumes.rmdir()
            else:
                del self.pods[name], self.usages[name]
        elif pod.metadata.deletion_timestamp is None and self.draw.random() < 0.3:
            meta = replace(pod.metadata, deletion_timestamp="2026-11-20T01:54:50Z")
            self.pods[name] = replace(pod, metadata=meta)
        else:
            phase = self.draw.choice(["Failed", "Succeeded"])
            self.pods[name] = replace(pod, status=replace(pod.status, phase=phase))


@pytest.mark.parametrize("seed", range(40))
def test_one_pod_at_a_time_is_evicted_and_only_if_nothing_else_helps(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)  # noqa: S311 - reproducible on purpose
    node = Machine(draw, tmp_path)
    state, pressures = EvictionState(), frozenset[Pressure]()
    waits: dict[str, float] = {}
    """Until when the end of an evicted pod, or of its files, is waited for."""
    for number in range(60):
        if draw.random() < 0.5:
            node.add(number)
        for name in [each for each in node.pods if draw.random() < 0.15]:
            node.change(name)
        node.left = node.draw_left() if draw.random() < 0.5 else node.left
        node.after_collection = node.draw_left() if draw.random() < 0.5 else None
        node.clock._elapsed += (passed := draw.choice([1.0, 10.0, 10.0, 35.0]))
        now = node.clock.monotonic()
        ended = {name for name, pod in node.pods.items() if pod.status.phase in ("Failed", "Succeeded")}
        with_files = {name for name in ended if node.paths.volumes(PodUid(name)).exists()}
        waits = {name: until for name, until in waits.items() if name in (node.pods.keys() - ended) | with_files}
        waits |= dict.fromkeys(with_files - waits.keys(), now + 30.0)
        active = {
            name: pod
            for name, pod in node.pods.items()
            if name not in ended and pod.metadata.deletion_timestamp is None
        }
        before = node.left
        node.evicted.clear()
        node.images.reset_mock()
        node.containers.reset_mock()
        node.pressures.clear()
        node.evictor.synchronize()

        decision = judge(state, SETTINGS, observe(before), now)
        state = decision.state
        assert node.pressures == ([decision.pressures] if decision.pressures != pressures else [])
        pressures = decision.pressures
        if any(now < until for until in waits.values()):
            assert not node.evicted, passed
            continue
        may_end = {name: pod for name, pod in active.items() if not is_critical(pod)}
        apart = before.image_fs is not None
        over = [
            (name, 1, False) for name, pod in may_end.items() if excess(pod, node.usages[name], image_fs_apart=apart)
        ]
        expected = over
        if decision.due and not over and may_end:
            first = decision.due[0]
            is_of_disk = PRESSURES[first.signal] is Pressure.DISK and not (apart and first.signal.startswith("nodefs"))
            if not (is_of_disk and not any_met(decision.due, observe(node.left))):
                pod = ranked(may_end.values(), node.usages, first.signal, image_fs_apart=apart)[0]
                grace = 1 if first.hard else min(40, pod.spec.termination_grace_period_seconds or 0)
                expected = [(pod.metadata.uid, grace, True)]
        assert node.evicted == expected
        assert node.images.remove_unused.called == node.containers.collect.called, "each whatever becomes of the other"
        waits |= {name: now + grace + 30.0 for name, grace, _ in expected}
        assert node.evictor._ending.keys() <= node.pods.keys(), "nothing is kept of a pod that has gone"
