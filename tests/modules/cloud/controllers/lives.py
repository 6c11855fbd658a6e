"""Lives of workloads that a seed draws: people change them, nodes are away for days, cloudcore is killed at a write.

The invariants are checked after each change of an object, and all must be as wanted in the end. A life is a function
of its seed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, kind_named, uid_of
from modules.apimachinery.pods.objects import has_ended, is_active, node_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.client.calls import MERGE, ApiCall, ApiResult
from modules.cloud.controllers.job_pods import TRACKING
from modules.cloud.controllers.view import controller_of
from modules.cloud.storage.object_storage import ObjectEvent
from modules.lab.simulate.workload_watch import WorkloadWatch
from tests.modules.cloud.controllers.site import FOLLOWED, Site, image_of, new_image, workload

DEPLOYMENT: Final = ObjectKey("Deployment", "default", "web")
STATEFUL: Final = ObjectKey("StatefulSet", "default", "db")
DAEMON: Final = ObjectKey("DaemonSet", "default", "each")
JOB: Final = ObjectKey("Job", "default", "sum")
CRON_JOB: Final = ObjectKey("CronJob", "default", "tick")
BUDGET: Final = ObjectKey("PodDisruptionBudget", "default", "web")
_NODES: Final = ("n1", "n2", "n3", "n4")
_DAY: Final = 86_400.0
_PAUSES: Final = (0.0, 0.3, 1.0, 3.0, 20.0, 200.0, 4000.0)
"""Seconds between two steps."""
_SLACK: Final = 1.0
"""Seconds within which controllers see what has changed: they pause after a refusal."""
_LOST: Final = ApiResult(refusal={"code": 504, "message": "the answer is lost"})


class Life(Site):
    """A site whose people, nodes and processes do what a seed says.

    Args:
        seed: of everything.
    """

    _collector: GarbageCollector | None = None

    def __init__(self, seed: int) -> None:
        super().__init__(seed, _NODES)
        self.seed = seed
        self._collector = GarbageCollector(self.cluster)
        for kind in FOLLOWED:
            for obj in self.all(kind):
                self._collector.add(key_of(obj), obj)
        self.silent: set[str] = set()
        """Nodes that are away, and known to be."""
        self.succeeded: Counter[str] = Counter()
        """Pods that have succeeded, by the uid of their Job."""
        self._slowness: dict[str, float] = {}
        self._images = 1
        self._version = {"Deployment": "app:1", "StatefulSet": "app:1", "DaemonSet": "app:1"}
        self._kills: set[int] = set()
        self.watch = WorkloadWatch(self.all, self.clock.monotonic, self._violated, _SLACK)
        self.ready_after = self._ready_after
        self.answer = self._answer
        self._steps: tuple[Callable[[], object], ...] = (
            self._new_version, self._new_version, self._broken_version, self._scale, self._scale, self._pause,
            self._away, self._back, self._back, self._forgotten, self._kill, self._kill, self._kill_later,
            self._kill_later, self._delete_pod, self._evict, self._evicted_by_node, self._job_pod_ends,
            self._job_pod_ends, self._job_pod_ends, self._job_pod_fails, self._use_again, self._jump,
        )  # fmt: skip

    def live(self, steps: int) -> None:
        """Begin, take a number of steps, repair everything, and check that all is as wanted."""
        choice = self.random.choice
        surge, unavailable = choice(((1, 0), (0, 1), (2, 1), (1, 1)))
        rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
        is_recreated = self.random.random() < 0.2
        self._strategy = {"type": "Recreate"} if is_recreated else {"type": "RollingUpdate", "rollingUpdate": rolling}
        self._apply_all()
        self.run_for(100)
        self.checks += [self._check_job, self._check_silent]
        for _ in range(steps):
            self._disturbed(choice(self._steps))
            pause = choice(_PAUSES)
            self.run_for(pause)
            if pause == _PAUSES[-1]:
                self._check_progress()
        self._repair()
        self._check_end()

    # What people apply

    def _apply_all(self) -> None:
        self.apply(self._deployment())
        self.apply(workload("StatefulSet", "db", replicas=2, serviceName="db"))
        self.apply(workload("DaemonSet", "each", updateStrategy={"type": "RollingUpdate"}))
        self.apply(self._job())
        self.apply(self._cron_job())
        budget = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
        self.apply({"kind": BUDGET.kind, "apiVersion": "policy/v1", "metadata": {"name": BUDGET.name}, "spec": budget})

    def _deployment(self) -> JsonObject:
        seconds = self.random.choice((0, 0, 5))
        return workload("Deployment", replicas=3, strategy=self._strategy, minReadySeconds=seconds)

    def _job(self) -> JsonObject:
        self._completions, self._parallelism = self.random.randint(1, 5), self.random.randint(1, 3)
        mode = self.random.choice(("Indexed", "NonIndexed"))
        counts: JsonObject = {"completions": self._completions, "parallelism": self._parallelism}
        return workload("Job", "sum", backoffLimit=100, completionMode=mode, **counts)

    def _cron_job(self) -> JsonObject:
        policy = self.random.choice(("Allow", "Forbid", "Forbid", "Replace"))
        template = {"spec": workload("Job", "tick", backoffLimit=100)["spec"]}
        spec: JsonObject = {"schedule": "0 */6 * * *", "concurrencyPolicy": policy, "jobTemplate": template}
        spec["successfulJobsHistoryLimit"] = self.random.choice((0, 3))
        metadata = {"name": CRON_JOB.name, "namespace": CRON_JOB.namespace}
        return {"kind": CRON_JOB.kind, "apiVersion": "batch/v1", "metadata": metadata, "spec": spec}

    # Steps

    def _disturbed(self, step: Callable[[], object]) -> None:
        step()
        self.settle()

    def _new_version(self) -> None:
        self._images += 1
        self._change_image(f"app:{self._images}")

    def _broken_version(self) -> None:
        self._change_image("app:broken")

    def _change_image(self, image: str) -> None:
        key = self.random.choice((DEPLOYMENT, DEPLOYMENT, STATEFUL, DAEMON))
        self._version[key.kind] = image
        self._person("patch", key, new_image(image), patch_type=MERGE)

    def _scale(self) -> None:
        key = self.random.choice((DEPLOYMENT, DEPLOYMENT, STATEFUL))
        self._person("patch", key, {"spec": {"replicas": self.random.randint(0, 5)}}, patch_type=MERGE)

    def _pause(self) -> None:
        is_paused = bool(self._found(DEPLOYMENT)["spec"].get("paused"))
        self._person("patch", DEPLOYMENT, {"spec": {"paused": not is_paused}}, patch_type=MERGE)

    def _away(self) -> None:
        """A node falls silent; the cloud says so now, or never."""
        name = self.random.choice(_NODES)
        self.offline.add(name)
        if self.random.random() < 0.7:
            self._say(name, "Unknown")

    def _back(self) -> None:
        if self.offline:
            self._return(self.random.choice(sorted(self.offline)))

    def _return(self, name: str) -> None:
        self.offline.discard(name)
        self._say(name, "True")

    def _say(self, name: str, ready: str) -> None:
        node = self.cluster.storage.find(ObjectKey("Node", "", name))
        if node is None:
            if ready == "True":
                self.add_node(name)
                self.silent.discard(name)
            return
        (self.silent.add if ready == "Unknown" else self.silent.discard)(name)
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": format_rfc3339(self.clock.now())}]
        self.cluster.replace({**node, "status": {**node["status"], "conditions": conditions}})
        self.cluster.node_lifecycle.taint([name])
        self._publish()

    def _forgotten(self) -> None:
        """A person deletes the Node of a node that is away."""
        if self.offline and self.random.random() < 0.3:
            name = self.random.choice(sorted(self.offline))
            self.silent.discard(name)
            self._person("delete", ObjectKey("Node", "", name))

    def _kill(self) -> None:
        self.restart()

    def _kill_later(self) -> None:
        """cloudcore is killed before or after one of its next writes."""
        self._kills.add(len(self.writes) + self.random.randint(1, 12))

    def _answer(self, call: ApiCall) -> ApiResult | None:
        if len(self.writes) not in self._kills or call.plural == "events":
            return None
        self._kills.discard(len(self.writes))
        if self.random.random() < 0.5:  # it is made, and only the answer is lost
            api_calls.serve(self.cluster, call)
        return _LOST

    def _delete_pod(self) -> None:
        pods = [pod for pod in self.pods() if (controller_of(pod) or {}).get("kind") != "Job"]
        if pods:
            pod = self.random.choice(pods)
            self.watch.excuse(pod)
            self._person("delete", key_of(pod))

    def _evict(self) -> None:
        """Somebody drains: what the budget allows leaves it satisfied."""
        pods = [pod for pod in self.pods() if pod["metadata"]["labels"].get("app") == "web" and is_active(pod)]
        healthy = [pod for pod in pods if is_ready(pod) and node_of(pod) not in self.silent]
        if not healthy:
            return
        pod = self.random.choice(healthy)
        self.watch.excuse(pod)
        eviction = {"kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        result = self._person("create", key_of(pod), eviction, subresource="eviction")
        wanted = int(self._found(DEPLOYMENT)["spec"]["replicas"])
        if result.refusal is None:
            assert len(healthy) - 1 >= wanted - 1, f"evicted with {len(healthy)} healthy pods of {wanted}"

    def _evicted_by_node(self) -> None:
        """A node ends a pod, as under memory pressure."""
        pods = [
            pod for pod in self.pods()
            if (controller_of(pod) or {}).get("kind") != "Job" and is_active(pod) and self._answers(pod)
        ]  # fmt: skip
        if pods:
            self.report(self.random.choice(pods), "Failed", reason="Evicted")

    def _job_pods(self) -> list[JsonObject]:
        pods = [pod for pod in self.pods() if (controller_of(pod) or {}).get("kind") == "Job" and self._answers(pod)]
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    def _job_pod_ends(self) -> None:
        pods = self._job_pods()
        if pods:
            pod = self.random.choice(pods)
            self.succeeded[str((controller_of(pod) or {})["uid"])] += 1
            self.report(pod, "Succeeded", containerStatuses=[{"name": "main"}])

    def _job_pod_fails(self) -> None:
        pods = self._job_pods()
        if pods:
            self.report(self.random.choice(pods), "Failed", containerStatuses=[{"name": "main"}])

    def _use_again(self) -> None:
        """A workload is deleted and made again immediately with its name."""
        key = self.random.choice((DEPLOYMENT, STATEFUL, DAEMON, JOB, CRON_JOB))
        policy = self.random.choice(("Background", "Foreground"))
        self._person("delete", key, None, options={"propagationPolicy": policy})
        if self.random.random() < 0.5:
            self.settle()
        if self.cluster.storage.find(key) is None:
            self._make(key)

    def _make(self, key: ObjectKey) -> None:
        self._version[key.kind] = "app:1"
        made = {
            "Deployment": self._deployment,
            "StatefulSet": lambda: workload("StatefulSet", "db", replicas=2, serviceName="db"),
            "DaemonSet": lambda: workload("DaemonSet", "each"),
            "Job": self._job,
            "CronJob": self._cron_job,
        }[key.kind]()
        self.cluster.apply(made)
        self._publish()

    def _jump(self) -> None:
        """Days pass without other events; or the machine's clock is set back."""
        if self.random.random() < 0.3:
            self.clock.jump_wall(-self.random.choice((30.0, 4000.0)))
        else:
            self.run_for(self.random.choice((1.0, 3.0)) * _DAY)

    def _person(self, verb: str, key: ObjectKey, body: JsonObject | None = None, **fields: Any) -> ApiResult:
        """Make a call of a person, who does not wait for what follows."""
        found = self.cluster.storage.find(key)
        if found is None or is_being_deleted(found):
            return ApiResult(refusal={"code": 404})
        kind = kind_named(key.kind)
        call = ApiCall(
            verb=verb, api_version=kind.api_version, plural=kind.plural, namespace=key.namespace, name=key.name,
            body=body, **fields,
        )  # fmt: skip
        result = api_calls.serve(self.cluster, call)
        self._publish()
        return result

    # The API server's garbage collector

    def _published(self, event: ObjectEvent) -> None:
        super()._published(event)
        if self._collector is not None:
            self._collector.handle_event(event)
            self.watch.changed(event.type, event.new, event.old)

    def settle(self) -> None:
        """Let everything happen that happens now, in any order: controllers look at objects before they have seen
        what they have written, and dependents of what is gone are deleted meanwhile.
        """
        self._publish()
        while True:
            busy = [queue for queue in self._queues if queue]
            if busy and self.random.random() < 0.8:
                self.random.choice(busy).popleft()()
            elif self._collector is not None and self._collector.has_work:
                self._collector.collect()
                self._publish()
            else:
                at = self.engine.run()
                if not any(self._queues) and (at is None or at > self.clock.now()):
                    return

    # What nodes do

    def _ready_after(self, pod: JsonObject) -> float | None:
        if image_of(pod) == "app:broken":
            return None
        return self._slowness.setdefault(uid_of(pod), self.random.choice((0.2, 1.0, 5.0, 30.0)))

    def _answers(self, pod: JsonObject) -> bool:
        return node_of(pod) not in self.offline

    def _found(self, key: ObjectKey) -> JsonObject:
        return self.cluster.storage.find(key) or {"spec": {"replicas": 0}, "metadata": {}}

    # Invariants

    def _of(self, key: ObjectKey) -> list[JsonObject]:
        """Return the active pods of the workload that has a name now."""
        uids = {uid_of(self._found(key))} if self._found(key)["metadata"] else set()
        if key.kind == "Deployment":
            uids = {uid_of(one) for one in self.all("ReplicaSet") if (controller_of(one) or {}).get("uid") in uids}
        return [pod for pod in self.all("Pod") if (controller_of(pod) or {}).get("uid") in uids and is_active(pod)]

    def _violated(self, invariant: str, text: str) -> None:
        raise AssertionError(f"seed {self.seed}: {invariant}: {text}")

    def _check_job(self, _site: Site) -> None:
        job = self._found(JOB)
        if job["metadata"]:
            assert len(self._of(JOB)) <= self._parallelism, "more pods than the parallelism"
            counted = int((job.get("status") or {}).get("succeeded") or 0)
            assert counted <= self.succeeded[uid_of(job)] <= self._completions, "completions are not exact"

    def _check_progress(self) -> None:
        """A DaemonSet's rollout has reached all nodes that answer: others use up no budget, unless it is a new pod that
        is not ready there.
        """
        daemon_set, image = self._found(DAEMON), self._version["DaemonSet"]
        is_over = not daemon_set["metadata"] or is_being_deleted(daemon_set) or image == "app:broken"
        if is_over or self.offline - self.silent:  # of these the cloud does not know
            return
        on = {node_of(pod): pod for pod in self._of(DAEMON)}
        spoilt = [
            pod for node, pod in on.items() if node in self.silent and image_of(pod) == image and not is_ready(pod)
        ]
        for node in self.all("Node") if not spoilt else ():
            name = str(node["metadata"]["name"])
            is_done = name in on and image_of(on[name]) == image and is_ready(on[name])
            assert is_done or name in self.offline, f"seed {self.seed}: the rollout has not reached {name}"

    def _check_silent(self, _site: Site) -> None:
        """A silent node's pod of a StatefulSet keeps its identity: no pod is removed at once but with its Node."""
        for call in self.writes:
            is_forced = call.verb == "delete" and call.plural == "pods" and call.options.get("gracePeriodSeconds") == 0
            assert not is_forced or any(self._is_gone(name) for name in _NODES) or self._had_gone, "a pod is torn away"

    def _is_gone(self, name: str) -> bool:
        found = self.cluster.storage.find(ObjectKey("Node", "", name)) is None
        self._had_gone = self._had_gone or found
        return found

    _had_gone = False

    # The end

    def _repair(self) -> None:
        """Let all nodes come back, and people want what works."""
        self._kills.clear()
        for name in _NODES:
            self._disturbed(lambda name=name: self._return(name))  # type: ignore[misc]
        self.run_for(60)
        for key in (DEPLOYMENT, STATEFUL, DAEMON, JOB, CRON_JOB):
            if not self._found(key)["metadata"]:
                self._disturbed(lambda key=key: self._make(key))  # type: ignore[misc]
        good = f"app:{self._images + 1}"
        for key in (DEPLOYMENT, STATEFUL, DAEMON):
            more = {"paused": False} if key is DEPLOYMENT else {}
            changes = new_image(good)
            changes["spec"] = {**changes["spec"], **more}
            self._disturbed(lambda key=key, changes=changes: self._person("patch", key, changes, patch_type=MERGE))  # type: ignore[misc]
        self.good = good
        self._disturbed(lambda: self._person("patch", CRON_JOB, {"spec": {"suspend": True}}, patch_type=MERGE))
        for _ in range(self._completions + 20):
            self.run_for(300)
            self._disturbed(self._job_pod_ends)
        self.run_for(4000)

    def _check_end(self) -> None:
        for problem in self._problems():
            raise AssertionError(f"seed {self.seed}: {problem}")
        before = len(self.writes)
        self.restart()
        self.run_for(_DAY)
        assert len(self.writes) == before, "something is written again and again, or after a restart"

    def _problems(self) -> Iterator[str]:
        web, db, each = (self._of(key) for key in (DEPLOYMENT, STATEFUL, DAEMON))
        replicas = {key: int(self._found(key)["spec"]["replicas"]) for key in (DEPLOYMENT, STATEFUL)}
        if len(web) != replicas[DEPLOYMENT]:
            yield f"{len(web)} pods of the Deployment instead of {replicas[DEPLOYMENT]}"
        if sorted(pod["metadata"]["name"] for pod in db) != [f"db-{number}" for number in range(replicas[STATEFUL])]:
            yield f"the StatefulSet has {[pod['metadata']['name'] for pod in db]}"
        if sorted(map(node_of, each)) != sorted(_NODES):
            yield f"the DaemonSet is on {sorted(map(node_of, each))}"
        for pod in (*web, *db, *each):
            if image_of(pod) != self.good or not is_ready(pod):
                yield f"{pod['metadata']['name']} is {image_of(pod)}, ready: {is_ready(pod)}"
        job = self._found(JOB)
        done = int((job.get("status") or {}).get("succeeded") or 0)
        conditions = [one["type"] for one in (job.get("status") or {}).get("conditions", ())]
        if not done == self.succeeded[uid_of(job)] == self._completions or "Complete" not in conditions:
            yield f"the Job has {done} of {self._completions}, {self.succeeded[uid_of(job)]} succeeded: {conditions}"
        yield from self._left_over(job)
        status = self._found(DEPLOYMENT)["status"]
        counts = {name: status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
        if set(counts.values()) != {replicas[DEPLOYMENT]}:
            yield f"the Deployment's status says {counts}, wanted are {replicas[DEPLOYMENT]}"

    def _left_over(self, job: JsonObject) -> Iterator[str]:
        uids = {uid_of(obj) for kind in ("ReplicaSet", "StatefulSet", "DaemonSet", "Job") for obj in self.all(kind)}
        for pod in self.all("Pod"):
            if (controller_of(pod) or {}).get("uid") not in uids:
                yield f"{pod['metadata']['name']} is left of a workload that is gone"
            elif is_being_deleted(pod):
                yield f"{pod['metadata']['name']} is still being deleted"
            elif has_ended(pod) and TRACKING in (pod["metadata"].get("finalizers") or ()):
                yield f"{pod['metadata']['name']} of {job['metadata']['name']} keeps its finalizer"
