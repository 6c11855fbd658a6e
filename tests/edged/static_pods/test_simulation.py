"""Static pods in a bad world, from a seed: files come, change and go, mirrors are deleted by people or by force, the
cloud is away or its answers get lost, edged fails. Once that is over each file's pod runs, and has one mirror that says
so.
"""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from beehive import Clock, Message, ModuleName
from edged.static_pods.manifest import CONFIG_HASH
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.types import Pod
from tests.edged.conftest import Bench
from tests.edged.meta_double import CONFLICT, NOT_FOUND, MetaDouble

LONGEST_SETTLING = 1500.0
"""Virtual seconds that all may take once the faults have stopped: the longest delay is 300 s, answers 65 s."""


class Cloud(MetaDouble):
    """A cloud that ends no pod of a node by itself, and tells the node of what becomes of them."""

    def __init__(self, clock: Clock, bench: Bench, chance: random.Random) -> None:
        super().__init__(clock)
        self._bench = bench
        self._chance = chance
        self._made = 0
        self.loses = 0.0
        """The chance that an answer gets lost after the deed."""

    def __call__(self, message: Message) -> Message | None:
        answer = super().__call__(message)
        remote = message.route.operation != "query" and self.connected
        return None if remote and self._chance.random() < self.loses else answer

    def mirrors(self) -> list[str]:
        """The resources of its pods."""
        return sorted(key for key in self.cloud if "/pod/" in key)

    def begin_deletion(self, resource: str) -> None:
        """As `kubectl delete pod` does."""
        going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 30}
        self._change(resource, metadata={**self.cloud[resource]["metadata"], **going})

    def remove(self, resource: str) -> None:
        """By force, or because the node has ended it."""
        self.objects.pop(resource, None)
        self._tell("delete", self.cloud.pop(resource))

    def _insert(self, resource: str, message: Message) -> dict[str, Any]:
        answer = super()._insert(resource, message)
        if "/pod/" in resource and answer["Object"] is not None:
            self._made += 1
            self.cloud[resource]["metadata"]["uid"] = f"mirror-{self._made}"
            self.cloud[resource]["status"] = {"phase": "Pending"}
            self._change(resource)
        return answer

    def _patch(self, resource: str, message: Message) -> dict[str, Any]:
        answer = super()._patch(resource, message)
        key, change = resource.replace("podpatch", "pod"), self.patches[resource][-1]
        if "/podpatch/" not in resource:
            return answer
        if key not in self.cloud or self.cloud[key]["metadata"]["uid"] != change["metadata"]["uid"]:
            return {"Object": None, "Err": CONFLICT if key in self.cloud else NOT_FOUND}
        self._change(key, status={**self.cloud[key]["status"], **change["status"]})
        return {"Object": {"metadata": self.cloud[key]["metadata"]}, "Err": None}

    def _delete(self, resource: str, message: Message) -> Any:
        known, uid = self.cloud.get(resource), message.content_as(dict)["preconditions"]["uid"]
        if known is None or known["metadata"]["uid"] != uid:
            return {"Object": None, "Err": NOT_FOUND if known is None else CONFLICT}
        self.remove(resource)
        return super()._delete(resource, message)

    def _change(self, resource: str, **fields: Any) -> None:
        self._version += 1
        value = self.cloud[resource] = self.objects[resource] = {**self.cloud[resource], **fields}
        value["metadata"] = {**value["metadata"], "resourceVersion": str(self._version)}
        self._tell("update", value)

    def _tell(self, operation: str, value: dict[str, Any]) -> None:
        bee, name = self._bench.bee, value["metadata"]["name"]
        message = bee.message(f"default/pod/{name}", operation, copy.deepcopy(value), source="edgecontroller")
        bee.hive.send(ModuleName.EDGED, message)


class World:
    """A node with static pods whose files, mirrors, cloud and edged change and fail at random."""

    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.files = root / "manifests"
        self.files.mkdir()
        self.bench = Bench(root, seed, static_pods=self.files)
        self.cloud = self.bench.meta = Cloud(self.bench.bee.clock, self.bench, self.chance)
        self.bench.bee.answer(ModuleName.METAMANAGER, self.cloud)
        self._written = 0
        self.wanted: dict[str, str] = {}
        """Values of each pod's command, by the pod's name."""

    def live(self) -> None:
        """Let the world be bad for some minutes; then stop all faults."""
        deeds = [self._put, self._unlink, self._delete, self._connect, self._change_manners]
        self.bench.start()
        for _ in range(40):
            self.chance.choices(deeds, [6, 2, 5, 2, 2])[0]()
            self.bench.run(self.chance.choice([0.0, 0.05, 0.5, 1.0, 5.0, 15.0]))
        self.cloud.loses = self.bench.runtime.obeys = self.bench.runtime.latency = 0.0
        self.bench.snapshots.fails = False
        self.bench.connection("cloud_connected")
        until = self.bench.bee.clock.monotonic() + LONGEST_SETTLING
        while self.unsettled() and self.bench.bee.clock.monotonic() < until:
            self.bench.run(10)

    def unsettled(self) -> list[str]:
        """What is not as it is wanted."""
        pods = {pod.metadata.name: pod for pod in self.bench.snapshots.pods}
        runs = {name: pod.spec.containers[0].command[1] for name, pod in pods.items()}
        found = [f"runs are {runs}, wanted {self.wanted}"] if runs != self.wanted else []
        if len(self.bench.running()) != len(self.wanted):
            found.append(f"{len(self.bench.running())} containers run")
        if self.cloud.mirrors() != sorted(f"default/pod/{name}" for name in self.wanted):
            found.append(f"mirrors are {self.cloud.mirrors()}")
        return found or [name for name, pod in pods.items() if not self._is_shown(pod)]

    def _is_shown(self, pod: Pod) -> bool:
        mirror = self.cloud.cloud[f"default/pod/{pod.metadata.name}"]
        metadata = mirror["metadata"]
        same = metadata["annotations"][CONFIG_MIRROR] == pod.metadata.annotations[CONFIG_HASH]
        going = "deletionTimestamp" in metadata
        return same and not going and mirror["status"]["phase"] == pod.status.phase == "Running"

    def _put(self) -> None:
        """Each file is longer than all before: time here is virtual, and two may be of one moment of the real clock."""
        self._written += 1
        name, word = self.chance.choice("abc"), "9" * self._written
        container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", word]}
        beside = self.files.parent / f"{self._written}.json"
        beside.write_text(json.dumps({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}))
        beside.rename(self.files / f"{name}.json")
        self.wanted[f"{name}-n1"] = word

    def _unlink(self) -> None:
        name = self.chance.choice("abc")
        (self.files / f"{name}.json").unlink(missing_ok=True)
        self.wanted.pop(f"{name}-n1", None)

    def _delete(self) -> None:
        if mirrors := self.cloud.mirrors():
            self.chance.choice([self.cloud.begin_deletion, self.cloud.remove])(self.chance.choice(mirrors))

    def _connect(self) -> None:
        self.bench.connection(self.chance.choice(["cloud_connected", "cloud_disconnected"]))
        self.cloud.loses = self.chance.choice([0.0, 0.0, 0.3])

    def _change_manners(self) -> None:
        self.bench.snapshots.fails = self.chance.random() < 0.5
        self.bench.runtime.obeys = self.chance.choice([0.0, 5.0])
        self.bench.runtime.latency = self.chance.choice([0.0, 0.3])


@pytest.mark.parametrize("seed", range(6))
def test_each_file_has_its_pod_and_each_pod_its_mirror_in_the_end(seed: int, tmp_path: Path) -> None:
    world = World(seed, tmp_path)
    try:
        world.live()
        assert world.unsettled() == []
    finally:
        world.bench.stop()
