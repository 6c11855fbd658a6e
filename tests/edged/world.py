"""A node in a bad world, from one seed: pods come, change and go, containers die, calls fail before or after they took
effect, the cloud is away or its answers get lost, edged fails and is started again, the wall clock jumps.

What must never happen is looked at after every call to the runtime, what must come true once the faults have stopped by
`unsettled`. A run is a function of its seed.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc

from beehive import Clock, Message, ModuleName, Runtime
from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from edged.pod_workers.job import Done, Job
from edged.pod_workers.syncer import PodSyncer
from edged.pods import labels
from edged.pods.hash import container_hash
from modules.apimachinery.strategic_merge import merge_strategic
from modules.apimachinery.types import Pod, PodStatus, decode
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, pod
from tests.edged.meta_double import NOT_FOUND, MetaDouble

NAMES = ("a", "b", "c", "d")
CALLS = (
    "run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox", "pod_sandbox_status", "list_pod_sandboxes",
    "create_container", "start_container", "stop_container", "remove_container", "list_containers",
    "container_status", "image_status", "pull_image",
)  # fmt: skip
ERRORS = (
    UnavailableError("Call", "", grpc.StatusCode.UNAVAILABLE, "the socket is gone"),
    DeadlineExceededError("Call", "", grpc.StatusCode.DEADLINE_EXCEEDED, "too late"),
    CriError("Call", "", grpc.StatusCode.UNKNOWN, "nobody says why"),
)
LONGEST_SETTLING = 1500.0
"""Virtual seconds that all may take once the faults have stopped: the longest delay is 300 s, answers 65 s."""


def _container(name: str, *command: str, image: str = "busybox:1.36") -> dict[str, Any]:
    return {"name": name, "image": image, "command": list(command)}


_RUNS = _container("main", "sleep", "inf")
KINDS: dict[str, dict[str, Any]] = {
    "runs": {"containers": [_RUNS]},
    "two": {"containers": [_RUNS, _container("side", "sleep", "inf")]},
    "inits": {"initContainers": [_container(f"i{n}", "exit", "0") for n in (1, 2)], "containers": [_RUNS]},
    "mounts": {
        "containers": [{**_RUNS, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
    },
    "pulls": {"containers": [_container("main", "sleep", "inf", image="rare:1")]},
    "loops": {"containers": [_container("main", "exit", "1")]},
    "completes": {"restartPolicy": "Never", "containers": [_container("main", "exit", "0")]},
    "fails": {"restartPolicy": "Never", "containers": [_container("main", "exit", "3")]},
    "retries": {"restartPolicy": "OnFailure", "containers": [_container("main", "exit", "0")]},
}
ENDING = ("completes", "fails", "retries")


class WatchedRuntime(FakeRuntime):
    """Says so when something runs twice, or something of another agent is touched."""

    def __init__(self, actors: Runtime, images: Iterable[str] = ()) -> None:
        super().__init__(actors, images)
        self.wrong: list[str] = []
        labelled = {labels.POD_UID: "theirs", labels.POD_NAME: "x", labels.POD_NAMESPACE: "default"}
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x", uid="theirs"), labels=labelled)
        self.foreign = ""
        self.foreign = self.run_pod_sandbox(config)
        self.wrong.clear()

    def _finish(self, error: CriError | None) -> None:
        self.judge()
        super()._finish(error)

    def judge(self) -> None:
        """Look for what must never be."""
        running = Counter(
            (c.labels[labels.POD_UID], c.metadata.name)
            for c in self.containers.values()
            if c.state == cri.CONTAINER_RUNNING
        )
        ready = Counter(s.metadata.uid for s in self.sandboxes.values() if s.state == cri.SANDBOX_READY)
        self.wrong += [f"{name} runs {count} times" for name, count in running.items() if count > 1]
        self.wrong += [f"{uid} has {count} ready sandboxes" for uid, count in ready.items() if count > 1]
        if self.foreign not in self.sandboxes or self.sandboxes[self.foreign].state != cri.SANDBOX_READY:
            self.wrong.append("another agent's sandbox was touched")


class Cloud(MetaDouble):
    """The cloud and its pods; it keeps what it receives, and may lose its answer."""

    def __init__(self, clock: Clock, chance: random.Random, gone: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(clock)
        self._chance = chance
        self._gone = gone
        self.loses = 0.0
        """The chance that an answer gets lost after the deed."""
        self.wrong: list[str] = []
        """What it should never have been told."""

    def __call__(self, message: Message) -> Message | None:
        answer = super().__call__(message)
        remote = message.route.operation != "query" and self.connected
        return None if remote and self._chance.random() < self.loses else answer

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods by resource."""
        return {key: value for key, value in self.objects.items() if "/pod/" in key}

    def _patch(self, resource: str, message: Message) -> dict[str, Any]:
        super()._patch(resource, message)
        key, change = resource.replace("podpatch", "pod"), self.patches[resource][-1]
        if "used to be Running" in str(change):
            self.wrong.append(f"a container of {resource} counts as lost, and is not")
        if "/podpatch/" not in resource:
            return {"Object": {"metadata": {"resourceVersion": "1"}}, "Err": None}
        if key not in self.objects or self.objects[key]["metadata"]["uid"] != change["metadata"]["uid"]:
            return {"Object": None, "Err": NOT_FOUND}
        merged = merge_strategic(self.objects[key], change, schema_of("Pod"))
        merged["metadata"]["resourceVersion"] = self.next_version()
        self.objects[key] = merged
        return {"Object": {"metadata": merged["metadata"]}, "Err": None}

    def _delete(self, resource: str, message: Message) -> str:
        uid = message.content_as(dict)["preconditions"]["uid"]
        if resource in self.objects and self.objects[resource]["metadata"]["uid"] == uid:
            self._gone(self.objects.pop(resource))
        return super()._delete(resource, message)

    def next_version(self) -> str:
        """The next resourceVersion."""
        self._version += 1
        return str(self._version)


class World:
    """A node with random pods and failures; `wrong` collects violated invariants."""

    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.bench = bench = Bench(root, seed, WatchedRuntime, workers=self.chance.choice([1, 2, 4]))
        assert isinstance(bench.runtime, WatchedRuntime)
        self.runtime = bench.runtime
        self.wrong = self.runtime.wrong
        self.kinds: dict[str, str] = {}
        self.deleted: set[str] = set()
        self._uids = 0
        self._busy: dict[str, Any] = {}
        self.cloud = bench.meta = Cloud(bench.bee.clock, self.chance, self._gone)
        self.cloud.wrong = self.wrong
        bench.bee.answer(ModuleName.METAMANAGER, self.cloud)
        self._set_config("one")

    def live(self, seconds: float) -> None:
        """Let the world be bad for so long; then stop all faults."""
        clock = self.bench.bee.clock
        until = clock.monotonic() + seconds
        with patch.object(PodSyncer, "sync", self._watched_sync(PodSyncer.sync)):
            self.bench.start()
            while clock.monotonic() < until and not self.wrong:
                self.chance.choices([self._act, self._fault], [3, 2])[0]()
                self.bench.run(self.chance.choice([0.0, 0.05, 0.3, 1.0, 3.0]))
            self._calm()
            while self.unsettled() and clock.monotonic() < until + LONGEST_SETTLING and not self.wrong:
                self.bench.run(10)

    def unsettled(self) -> list[str]:
        """What is not as it is wanted."""
        found = []
        served = {p.metadata.uid: p for p in self.bench.snapshots.pods}
        for wanted in self.cloud.pods().values():
            uid = wanted["metadata"]["uid"]
            if uid not in served:
                found.append(f"{uid} is not served")
            elif served[uid].status != decode(PodStatus, json.dumps(wanted["status"]).encode()):
                found.append(f"the cloud has another status of {uid}")
            else:
                found += self._differences(served[uid], self.kinds[uid])
        found += [f"{uid} is served and not wanted" for uid in served if uid in self.deleted]
        found += [f"{uid} is left in the runtime" for uid in self._uids_in_runtime() & self.deleted]
        for uid in self.deleted:
            found += [str(p) for p in (self.bench.settings.root / "pods").glob(uid)]
            found += [str(p) for p in self.bench.settings.pod_logs.glob(f"*_{uid}")]
        return found

    def _differences(self, served: Pod, kind: str) -> list[str]:
        uid = served.metadata.uid
        if served.metadata.deletion_timestamp is not None:
            return [f"{uid} has not gone"]
        mine = [c for c in self.runtime.containers.values() if c.labels[labels.POD_UID] == uid]
        running = {c.metadata.name: c for c in mine if c.state == cri.CONTAINER_RUNNING}
        if kind in ENDING:
            ended = served.status.phase in ("Succeeded", "Failed") and not running
            return [] if ended else [f"{uid} has not ended: {served.status.phase}"]
        if kind == "loops":
            return [] if served.status.container_statuses[0].restart_count else [f"{uid} was not restarted"]
        found = [] if served.status.phase == "Running" else [f"{uid} is {served.status.phase}"]
        for container, status in zip(
            sorted(served.spec.containers, key=lambda c: c.name), served.status.container_statuses, strict=True
        ):
            runs = running.get(container.name)
            if runs is None or runs.annotations[labels.DEFINITION_HASH] != container_hash(container):
                found.append(f"{container.name} of {uid} does not run as it should")
            elif (status.container_id, status.restart_count) != (f"fake://{runs.id}", runs.metadata.attempt):
                found.append(f"{container.name} of {uid} is reported otherwise")
        return found

    def _uids_in_runtime(self) -> set[str]:
        sandboxes = {s.labels[labels.POD_UID] for s in self.runtime.sandboxes.values()}
        return sandboxes | {c.labels[labels.POD_UID] for c in self.runtime.containers.values()}

    def _act(self) -> None:
        if not self.cloud.connected:
            return
        acts = [self._create, self._change, self._repeat, self._delete, self._force, self._recreate, self._revive]
        self.chance.choices([*acts, self._configure], [5, 3, 1, 2, 1, 1, 1, 1])[0]()

    def _fault(self) -> None:
        faults = [self._fail_call, self._die, self._sandbox_dies, self._toggle_cloud, self._poison, self._jump]
        self.chance.choices([*faults, self._change_manners], [4, 4, 2, 2, 1, 1, 2])[0]()

    def _create(self) -> None:
        free = [name for name in NAMES if f"default/pod/{name}" not in self.cloud.objects]
        if free:
            self._insert(self.chance.choice(free))

    def _insert(self, name: str) -> None:
        self._uids += 1
        uid, kind = f"uid-{self._uids}", self.chance.choice(list(KINDS))
        self.kinds[uid] = kind
        metadata = {"uid": uid, "resourceVersion": self.cloud.next_version()}
        self._send("insert", pod(name, metadata=metadata, **KINDS[kind]))

    def _change(self) -> None:
        """Another image or another label."""
        wanted = self._any_pod()
        if wanted is not None and self.kinds[wanted["metadata"]["uid"]] not in ENDING:
            image = self.chance.choice(["busybox:1.36", "busybox:1.37"])
            spec = {**wanted["spec"], "containers": [{**c, "image": image} for c in wanted["spec"]["containers"]]}
            self._update({**wanted, "spec": spec})

    def _repeat(self) -> None:
        wanted = self._any_pod()
        if wanted is not None:
            self._send("update", wanted)

    def _delete(self) -> None:
        wanted = self._any_pod()
        if wanted is not None and "deletionTimestamp" not in wanted["metadata"]:
            grace = self.chance.choice([1, 5, 30])
            going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": grace}
            self._update({**wanted, "metadata": {**wanted["metadata"], **going}})

    def _force(self) -> str:
        wanted = self._any_pod()
        if wanted is None:
            return ""
        name: str = wanted["metadata"]["name"]
        self._gone(self.cloud.objects.pop(f"default/pod/{name}"), deletionGracePeriodSeconds=0)
        return name

    def _recreate(self) -> None:
        name = self._force()
        if name:
            self._insert(name)

    def _revive(self) -> None:
        """A cloud that takes a deletion back: the same pod comes again, from the beginning."""
        wanted = self._any_pod()
        if wanted is not None and "deletionTimestamp" not in wanted["metadata"]:
            self._gone(wanted)
            self.deleted.discard(wanted["metadata"]["uid"])
            self.bench.run(self.chance.choice([0.0, 0.1, 1.0]))
            self._update({**wanted, "status": {"phase": "Pending"}})

    def _configure(self) -> None:
        value = self._set_config(str(self.chance.random()))
        self._tell("update", "default/configmap/settings", value)

    def _set_config(self, text: str) -> dict[str, Any]:
        metadata = {"name": "settings", "namespace": "default", "uid": "cm"}
        self.cloud.objects["default/configmap/settings"] = value = {"metadata": metadata, "data": {"a": text}}
        return value

    def _any_pod(self) -> dict[str, Any] | None:
        pods = list(self.cloud.pods().values())
        return self.chance.choice(pods) if pods else None

    def _update(self, wanted: dict[str, Any]) -> None:
        metadata = {**wanted["metadata"], "resourceVersion": self.cloud.next_version()}
        self._send("update", {**wanted, "metadata": metadata})

    def _send(self, operation: str, wanted: dict[str, Any]) -> None:
        resource = f"default/pod/{wanted['metadata']['name']}"
        self.cloud.objects[resource] = wanted
        self._tell(operation, resource, wanted)

    def _gone(self, was: dict[str, Any], **metadata: Any) -> None:
        self.deleted.add(was["metadata"]["uid"])
        value = {**was, "metadata": {**was["metadata"], **metadata}}
        self._tell("delete", f"default/pod/{was['metadata']['name']}", value)

    def _tell(self, operation: str, resource: str, value: Any, source: str = "edgecontroller") -> None:
        bee = self.bench.bee
        bee.hive.send(ModuleName.EDGED, bee.message(resource, operation, value, source=source))

    def _fail_call(self) -> None:
        call, error = self.chance.choice(CALLS), self.chance.choice(ERRORS)
        times, late = self.chance.choice([1, 1, 2, 5]), self.chance.random() < 0.5
        self.runtime.fail(call, error, times=times, took_effect=late)

    def _die(self) -> None:
        self.runtime.end(self.chance.choice(["main", "side", "i1"]), self.chance.choice([0, 1, 137]))

    def _sandbox_dies(self) -> None:
        ours = [s for s in self.runtime.sandboxes if s != self.runtime.foreign]
        if ours:
            self.runtime.end_sandbox(self.chance.choice(ours))

    def _toggle_cloud(self) -> None:
        self._connect(connected=not self.cloud.connected)
        self.cloud.loses = self.chance.choice([0.0, 0.0, 0.3])

    def _connect(self, *, connected: bool) -> None:
        self.cloud.connected = connected
        content = "cloud_connected" if connected else "cloud_disconnected"
        self._tell("connect", "node/connection", content, source="edgehub")

    def _poison(self) -> None:
        self.bench.snapshots.fails = True

    def _jump(self) -> None:
        self.bench.bee.clock.jump_wall(self.chance.choice([-86400.0, -30.0, 30.0, 86400.0]))

    def _change_manners(self) -> None:
        self.runtime.obeys = self.chance.choice([0.0, 2.0, float("inf")])
        self.runtime.latency = self.chance.choice([0.0, 0.02, 0.5])
        self.runtime.pull_seconds = self.chance.choice([0.0, 5.0])

    def _calm(self) -> None:
        self.runtime.recover()
        self.bench.snapshots.fails = False
        self.runtime.obeys = self.runtime.latency = self.cloud.loses = 0.0
        self._connect(connected=True)

    def _watched_sync(self, really: Callable[[PodSyncer, Job], Done]) -> Callable[[PodSyncer, Job], Done]:
        """Checks that no pod is on two workers; workers of an ended edged can do nothing."""

        def sync(syncer: PodSyncer, job: Job) -> Done:
            if self._busy.get(job.ref.uid) is syncer:
                self.wrong.append(f"{job.ref} is on two workers")
            self._busy[job.ref.uid] = syncer
            try:
                return really(syncer, job)
            finally:
                if self._busy.get(job.ref.uid) is syncer:
                    del self._busy[job.ref.uid]

        return sync
