"""Controllers and scheduler of the embedded cloud, in one process and without a network: 200 nodes, 20 Deployments,
5 DaemonSets and 2,000 Services.

A script plays the nodes: they report addresses and readiness, and end what is deleted. Measured is processor time, that
of the API server beside that of the controllers, so other load on the machine hardly counts.

    python -m tests.bench.workloads [ROUNDS]
"""

import sys
from collections import deque
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any, Final

import psutil

from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_of, kind_named
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.registry import ALL, CONTROLLERS, MADE
from modules.cloud.storage.watch_history import ObjectChanged
from tests.bench.rows import Row, Unit, written

NODES: Final = 200
DEPLOYMENTS: Final = 20
REPLICAS: Final = 10
DAEMON_SETS: Final = 5
SERVICES: Final = 2000
_POD: Final = kind_named("Pod")
_FOLLOWED: Final = frozenset((*CONTROLLERS, *MADE))
_MOST_SECONDS: Final = 10_000
"""Virtual seconds after which a step is given up."""


class Cloud:
    """The API server's objects and the controllers; each call is answered before the next one."""

    def __init__(self) -> None:
        self._clock = VirtualClock(0)
        self.cluster = Cluster(self._clock)
        self._queue: deque[Callable[[], None]] = deque()
        self._engine = Engine(ALL, self._perform, self._clock, _lost)
        self._addresses = 0
        self._waiting: dict[Any, JsonObject] = {}
        """The pods about which their nodes have something to say."""
        self.served = 0.0
        """Processor seconds of the API server."""

    def make(self, *objects: JsonObject) -> None:
        """Create objects, as a person does."""
        for obj in objects:
            self._served(lambda obj=obj: self.cluster.apply(obj))  # type: ignore[misc]

    def settle(self) -> None:
        """Let everything happen that follows, until no pod has news and no controller has anything to do."""
        end = self._clock.now() + _MOST_SECONDS
        while self._clock.now() < end:
            self._work()
            if self._waiting:
                self._report()
                continue
            at = self._engine.run()
            if at is None or at > self._clock.now() + 60.0:
                return
            self._clock.fire_next(self._clock.monotonic() + max(0.001, at - self._clock.now()))
        message = "the controllers did not come to rest"
        raise RuntimeError(message)

    def _work(self) -> None:
        while True:
            while self._queue:
                self._queue.popleft()()
            at = self._engine.run()
            if not self._queue and (at is None or at > self._clock.now()):
                return

    def _perform(self, call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        def make() -> None:
            then(self._served(lambda: api_calls.serve(self.cluster, call)))

        self._queue.append(make)

    def _served(self, work: Callable[[], Any]) -> Any:
        """Do the API server's work, and publish what has changed."""
        begin = process_time()
        result = work()
        events = self.cluster.storage.drain_events()
        self.served += process_time() - begin
        for event in events:
            changed = ObjectChanged(event.type, event.new, event.old)
            if event.key.kind == _POD.name:
                self._note(changed)
            if changed.kind in _FOLLOWED:
                self._queue.append(lambda changed=changed: self._engine.handle(changed))  # type: ignore[misc]
        return result

    def _note(self, changed: ObjectChanged) -> None:
        pod = changed.object
        is_said = pod["status"].get("phase") == "Running" and not is_being_deleted(pod)
        if changed.change == "DELETED" or is_said or not pod["spec"].get("nodeName"):
            self._waiting.pop(key_of(pod), None)
        else:
            self._waiting[key_of(pod)] = pod

    def _report(self) -> None:
        """Let the nodes report what they have got, and end what is deleted."""
        waiting, self._waiting = self._waiting, {}
        for key, pod in waiting.items():
            if is_being_deleted(pod):
                self._served(lambda key=key: self.cluster.delete(key, grace=0))  # type: ignore[misc]
            else:
                self._served(lambda key=key: self.cluster.replace_status(key, self._running()))  # type: ignore[misc]

    def _running(self) -> JsonObject:
        self._addresses += 1
        address = f"10.{86 + (self._addresses >> 16)}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_rfc3339(self._clock.now())}
        return {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}


def _lost() -> None:
    message = "a call was lost"
    raise RuntimeError(message)


def node(number: int) -> JsonObject:
    """Return a Node that is ready."""
    name = f"n{number:03}"
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}}
    status = {"conditions": conditions, "allocatable": allocatable, "capacity": allocatable}
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status}


def workload(kind: str, name: str, image: str = "app:1", **spec: Any) -> JsonObject:
    """Return a Deployment or DaemonSet whose pods ask for little."""
    container = {
        "name": "main",
        "image": image,
        "ports": [{"containerPort": 8080, "name": "web"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    wanted = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": wanted}


def service(number: int) -> JsonObject:
    """Return a Service of a Deployment's pods; a hundred have the same ones."""
    port = {"name": "web", "port": 80, "targetPort": "web"}
    spec = {"selector": {"app": f"web-{number % DEPLOYMENTS}"}, "ports": [port]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"svc-{number}", "namespace": "default"},
        "spec": spec,
    }


class _Steps:
    """The processor seconds of each step."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.controllers: dict[str, list[float]] = {}
        self.all: dict[str, list[float]] = {}

    def step(self, name: str, *objects: JsonObject) -> None:
        """Apply objects, and let everything happen that follows."""
        begin, served = process_time(), self._cloud.served
        self._cloud.make(*objects)
        self._cloud.settle()
        spent = process_time() - begin
        self.all.setdefault(name, []).append(spent)
        self.controllers.setdefault(name, []).append(spent - (self._cloud.served - served))


def measure(rounds: int) -> list[Row]:
    """Measure all rows."""
    spent: dict[str, list[tuple[float, float]]] = {}
    grown = []
    for _ in range(rounds):
        before = psutil.Process().memory_info().rss
        cloud = Cloud()
        steps = _Steps(cloud)
        steps.step("nodes", *map(node, range(NODES)))
        deployments = [(f"web-{number}", REPLICAS) for number in range(DEPLOYMENTS)]
        what = f"{DEPLOYMENTS} Deployments of {REPLICAS} pods"
        steps.step(what, *(workload("Deployment", name, replicas=replicas) for name, replicas in deployments))
        what = f"{DAEMON_SETS} DaemonSets"
        steps.step(what, *(workload("DaemonSet", f"agent-{number}") for number in range(DAEMON_SETS)))
        what = f"{SERVICES:,} Services of the {DEPLOYMENTS * REPLICAS} pods"
        steps.step(what, *map(service, range(SERVICES)))
        what = f"rollout of the {DEPLOYMENTS * REPLICAS} pods behind the Services"
        steps.step(what, *(workload("Deployment", name, "app:2", replicas=replicas) for name, replicas in deployments))
        grown.append((psutil.Process().memory_info().rss - before) / 1e6)
        for name, seconds in steps.all.items():
            spent.setdefault(name, []).append((seconds[0], steps.controllers[name][0]))
    return [
        *(
            Row(f"{name}: controllers; floor: the API server's part", median(own for _, own in found), Unit.SECONDS,
                median(whole - own for whole, own in found))
            for name, found in spent.items()
        ),
        Row.of("memory of all of it", grown[:1], Unit.MEGABYTES),
    ]  # fmt: skip


if __name__ == "__main__":
    for each in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        sys.stdout.write(f"{written(each)}\n")
