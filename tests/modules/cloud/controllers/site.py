"""A small cloud in virtual time: the API server's objects, the controllers, and nodes that run pods."""

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, kind_named
from modules.apimachinery.pods.objects import has_ended
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import MERGE, ApiCall, ApiResult
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.plan import ReconcilePlan
from modules.cloud.controllers.registry import ALL, CONTROLLERS, MADE
from modules.cloud.controllers.view import controller_of
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.watch_history import ObjectChanged
from tests.support.presence import present

_ENDLESS: Final = 1_000_000
"""Steps at one moment after which it has no end."""
FOLLOWED = (*CONTROLLERS, *MADE)
"""The kinds that the controllers follow, in one order, so that equal seeds are equal lives."""


class Site:
    """The controllers, connected to the API server's objects by queues of calls, answers and changes.

    Args:
        seed: of the order of answers and changes; a call and its answer may each be a while apart.
        nodes: names of nodes that run pods.
        room: bytes of memory that a namespace may take; None: any number.
        ready_after: seconds after which a running pod is ready; None: never.
    """

    def __init__(self, seed: int = 0, nodes: tuple[str, ...] = ("n1", "n2", "n3"), room: int | None = None) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.clock = VirtualClock(seed)
        self.cluster = Cluster(self.clock, room=room)
        self.ready_after: Callable[[JsonObject], float | None] = lambda _: 1.0
        self.offline: set[str] = set()
        self.answer: Callable[[ApiCall], ApiResult | None] = lambda _: None
        """Answers a call of the controllers in place of the API server, if it returns something."""
        self.checks: list[Callable[[Site], None]] = []
        """Invariants, which are checked after each change."""
        self.writes: list[ApiCall] = []
        """The calls of the controllers, without Events."""
        self._queues: tuple[deque[Callable[[], None]], ...] = (deque(), deque(), deque())
        """Calls, answers, changes."""
        self.engine = self._begin()
        for name in nodes:
            self.add_node(name)
        self.settle()

    def _begin(self) -> Engine:
        return Engine(ALL, self._perform, self.clock, self.restart)

    def restart(self) -> None:
        """Restart the controllers as another process: calls under way may be lost."""
        self.engine.stop()
        for queue in self._queues:
            queue.clear()
        self.engine = self._begin()
        for kind in FOLLOWED:
            for obj in self.cluster.storage.list(self.cluster.storage.kinds.named(kind)):
                self.engine.handle(ObjectChanged("ADDED", obj))
        self.engine.enqueue_all()

    def add_node(self, name: str, seconds: float = 0, **fields: Any) -> None:
        """Register a node, and let time pass."""
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"conditions": conditions, "allocatable": {"pods": "1000"}}
        labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
        self.cluster.create(
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": fields,
             "status": status}
        )  # fmt: skip
        self._publish()
        if seconds:
            self.run_for(seconds)

    def fall_silent(self, *names: str, seconds: float = 0) -> None:
        """Let nodes fall silent, the cloud say so, and time pass."""
        self.offline.update(names)
        self._say_ready("Unknown", names, seconds)

    def come_back(self, *names: str, seconds: float = 0) -> None:
        """Let nodes that are silent answer again, and time pass."""
        self.offline.difference_update(names)
        self._say_ready("True", names, seconds)

    def _say_ready(self, status: str, names: tuple[str, ...], seconds: float) -> None:
        condition = {"type": "Ready", "status": status, "lastTransitionTime": format_rfc3339(self.clock.now())}
        for name in names:
            node = self.cluster.storage.get(ObjectKey("Node", "", name))
            self.cluster.replace({**node, "status": {**node["status"], "conditions": [condition]}})
        self.cluster.node_lifecycle.taint(names)
        self._pass(seconds)

    def apply(self, *objects: JsonObject, seconds: float = 0) -> JsonObject:
        """Apply manifests in turn, let happen what follows within some seconds, and return the last object."""
        for obj in objects:
            made, _ = self.cluster.apply(obj)
            self.settle()
        self._pass(seconds)
        return made

    def call(self, verb: str, obj: JsonObject | ObjectKey, seconds: float = 0, **fields: Any) -> ApiResult:
        """Make a call of a person about an object, and let happen what follows within some seconds."""
        key = obj if isinstance(obj, ObjectKey) else key_of(obj)
        kind = self.cluster.storage.kinds.of_key(key)
        call = ApiCall(
            verb=verb,
            api_version=kind.api_version,
            plural=kind.plural,
            namespace=key.namespace,
            name=key.name,
            **fields,
        )
        result = api_calls.serve(self.cluster, call)
        self._publish()
        self._pass(seconds)
        return result

    def patch(self, obj: JsonObject | ObjectKey, changes: JsonObject, seconds: float = 0) -> JsonObject:
        """Merge a person's change into an object, and let happen what follows within some seconds."""
        result = self.call("patch", obj, seconds, patch_type=MERGE, body=changes)
        assert result.object is not None, result.refusal
        return result.object

    def get(self, kind: str, name: str) -> JsonObject:
        """Return an object of the namespace default."""
        return self.cluster.storage.get(ObjectKey(kind, "default", name))

    def all(self, kind: str) -> list[JsonObject]:
        """Return the objects of a kind."""
        return self.cluster.storage.list(self.cluster.storage.kinds.named(kind))

    def pods(self, owner: str = "") -> list[JsonObject]:
        """Return the pods that are not being deleted, of a controller or of all."""
        found = [pod for pod in self.all("Pod") if not is_being_deleted(pod)]
        return [pod for pod in found if not owner or (controller_of(pod) or {}).get("name") == owner]

    def events(self) -> list[tuple[str, str]]:
        """Return reason and message of all Events."""
        events = sorted(self.all("Event"), key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event["message"]) for event in events]

    def settle(self) -> None:
        """Let everything happen that is due now."""
        self._publish()
        for _ in range(_ENDLESS):
            busy = [queue for queue in self._queues if queue]
            if busy:
                self.random.choice(busy).popleft()()
                continue
            at = self.engine.run()
            if not any(self._queues) and (at is None or at > self.clock.now()):
                return
        raise AssertionError(f"the controllers write without end; the last time {self.writes[-1:]}")

    def _pass(self, seconds: float) -> None:
        self.settle()
        if seconds:
            self.run_for(seconds)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        end = self.clock.now() + seconds
        while True:
            self.settle()
            wake = min(filter(None, (self.engine.run(), self._next_of_nodes())), default=end)
            if wake >= end:
                self._go_to(end)
                self._run_nodes()
                self.settle()
                return
            self._go_to(wake)
            self._run_nodes()

    def is_settled(self) -> bool:
        """Reconcile all in an hour to come, and return whether nothing was written."""
        before = len(self.writes)
        self.engine.enqueue_all()
        self.run_for(3600)
        return len(self.writes) == before

    def lose_answers(self, count: int, *, made: bool) -> None:
        """Refuse so many of the next sixty writes as lost, which are made all the same or not."""
        lost = {len(self.writes) + number for number in self.random.sample(range(60), count)}

        def answer(call: ApiCall) -> ApiResult | None:
            if len(self.writes) not in lost:
                return None
            lost.discard(len(self.writes))
            if made:
                api_calls.serve(self.cluster, call)
            return ApiResult(refusal={"code": 504, "message": "lost"})

        self.answer = answer

    def _go_to(self, moment: float) -> None:
        seconds = moment - self.clock.now()
        if seconds > 0:
            self.clock.fire_next(self.clock.monotonic() + seconds)

    def _perform(self, call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        calls, answers, _ = self._queues

        def make() -> None:
            if call.plural != "events" and call.verb != "get":
                self.writes.append(call)
            with self.cluster.within_quotas():
                result = self.answer(call) or api_calls.serve(self.cluster, call)
            self._publish()
            answers.append(lambda: then(result))

        calls.append(make)

    def _publish(self) -> None:
        """Tell the controllers of the changes, in order but later."""
        for event in self.cluster.storage.drain_events():
            self._published(event)
            for check in self.checks:
                check(self)

    def _published(self, event: ObjectEvent) -> None:
        changed = ObjectChanged(event.type, event.new, event.old)
        if changed.kind in FOLLOWED:
            self._queues[2].append(lambda: self.engine.handle(changed))

    def _next_of_nodes(self) -> float | None:
        return min((at for at, _ in self._duties()), default=None)

    def _run_nodes(self) -> None:
        now = self.clock.now()
        for at, do in list(self._duties()):
            if at <= now:
                do()
        self.settle()

    def _duties(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """Yield the nodes' actions and their times: report running pods, and end deleted ones."""
        now = self.clock.now()
        for pod in self.all("Pod"):
            node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
            if not node or node in self.offline:
                continue
            if is_being_deleted(pod) and pod["metadata"].get("finalizers"):
                if not has_ended(pod):  # a node says that a pod has ended before it lets it go
                    yield now, lambda pod=pod: self.report(pod, "Failed")  # type: ignore[misc]
            elif is_being_deleted(pod):
                yield now, lambda pod=pod: self._gone(pod)  # type: ignore[misc]
            elif phase == "Pending":
                yield now, lambda pod=pod: self.report(pod, "Running")  # type: ignore[misc]
            elif phase == "Running" and not is_ready(pod):
                after = self.ready_after(pod)
                since = float(pod["metadata"]["annotations"]["ran"])
                if after is not None:
                    yield since + after, lambda pod=pod: self.report(pod, "Running", ready=True)  # type: ignore[misc]

    def _gone(self, pod: JsonObject) -> None:
        if self.cluster.storage.find(key_of(pod)) is not None:
            self.cluster.delete(key_of(pod), grace=0)
            self._publish()

    def report(self, pod: JsonObject, phase: str, *, ready: bool = False, seconds: float = 0, **status: Any) -> None:
        """Report the status of a pod, as its node does, and let time pass."""
        live = self.cluster.storage.find(key_of(pod))
        if live is None:
            return
        moment = format_rfc3339(self.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": moment}
        given = {**live["status"], "phase": phase, "conditions": [condition], **status}
        annotations = {"ran": str(self.clock.now()), **(live["metadata"].get("annotations") or {})}
        self.cluster.replace({**live, "metadata": {**live["metadata"], "annotations": annotations}, "status": given})
        self._publish()
        if seconds:
            self.run_for(seconds)


def site_of(*objects: JsonObject, seconds: float = 0, **fields: Any) -> Site:
    """Return a site after objects were applied to it and some seconds have passed; `fields` as those of `Site`."""
    site = Site(**fields)
    site.apply(*objects, seconds=seconds)
    return site


def workload(kind: str, name: str = "web", image: str = "app:1", **spec: Any) -> JsonObject:
    """Return a workload as a person writes it."""
    labels = {"app": name}
    template: JsonObject = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    given: JsonObject = {"template": template, **spec}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        given["selector"] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return {"apiVersion": kind_named(kind).api_version, "kind": kind, "metadata": {"name": name}, "spec": given}


def written_status(plan: ReconcilePlan) -> JsonObject:
    """Return the status that a controller writes."""
    written: JsonObject = present(present(plan.status).call.body)["status"]
    return written


def image_of(pod: JsonObject) -> str:
    """Return the image of a pod's first container, or of a template's."""
    return str(pod["spec"]["containers"][0]["image"])


def new_image(image: str) -> JsonObject:
    """Return the patch that gives a workload's template another image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
