"""`drain`: which pods it evicts, and how it does against a real cloudcore."""

from types import SimpleNamespace
from typing import Any

import pytest

from modules.cli.errors import KubectlError, StatusError, TimedOutError
from modules.kubectl import drain
from modules.kubectl.drain import DrainOptions, DrainPlan, drain_plan
from tests.modules.kubectl.cloud import Cloud, node, pod

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
ALL = DrainOptions(ignore_daemonsets=True, delete_emptydir_data=True, force=True)


def owned(name: str, kind: str = "ReplicaSet", **labels: str) -> dict[str, Any]:
    made = pod(name, labels=labels, status=READY)
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u1", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


def with_empty_dir(made: dict[str, Any]) -> dict[str, Any]:
    made["spec"]["volumes"] = [{"name": "cache", "emptyDir": {}}]
    return made


def names(plan: DrainPlan) -> list[str]:
    return [each["metadata"]["name"] for each in plan.pods]


def test_evictions_that_a_person_must_allow_are_refused_in_kubectls_words() -> None:
    pods = [owned("web"), owned("agent", "DaemonSet"), with_empty_dir(owned("cached")), pod("bare"), pod("other")]
    plan = drain_plan(pods, DrainOptions())
    assert names(plan) == ["web"]
    assert plan.errors == [
        "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/agent",
        "cannot delete Pods with local storage (use --delete-emptydir-data to override): default/cached",
        "cannot delete Pods that declare no controller (use --force to override): default/bare, default/other",
    ]


def test_pods_that_a_person_allows_are_evicted_with_a_warning() -> None:
    pods = [owned("web"), owned("agent", "DaemonSet"), with_empty_dir(owned("cached")), pod("bare")]
    plan = drain_plan(pods, ALL)
    assert names(plan) == ["web", "cached", "bare"]
    assert plan.errors == []
    assert plan.warnings == (
        "ignoring DaemonSet-managed Pods: default/agent; deleting Pods with local storage: default/cached; "
        "deleting Pods that declare no controller: default/bare"
    )


def test_mirror_pods_stay_and_pods_that_have_ended_go_without_a_word() -> None:
    mirror = pod("static")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    ended = with_empty_dir(pod("done", status={"phase": "Succeeded"}))
    assert drain_plan([mirror, ended], ALL) == DrainPlan([ended], "", [])
    assert names(drain_plan([ended], DrainOptions())) == ["done"]
    agent = owned("agent", "DaemonSet")
    agent["status"] = {"phase": "Failed"}
    assert drain_plan([agent], DrainOptions()) == DrainPlan([agent], "", [])


def test_a_pod_is_refused_for_its_first_reason_and_each_volume_and_owner_counts() -> None:
    agent, cached, noted = owned("agent", "DaemonSet"), with_empty_dir(owned("cached")), owned("noted", "ConfigMap")
    with_empty_dir(agent)
    cached["spec"]["volumes"].insert(0, {"name": "settings", "configMap": {"name": "c"}})
    del noted["metadata"]["ownerReferences"][0]["controller"]
    plan = drain_plan([agent, cached, noted], DrainOptions())
    assert [(error[:37], error.rpartition(": ")[2]) for error in plan.errors] == [
        ("cannot delete DaemonSet-managed Pods ", "default/agent"),
        ("cannot delete Pods with local storage", "default/cached"),
        ("cannot delete Pods that declare no co", "default/noted"),
    ]  # fmt: skip


class Answers:
    """A server of pods on a node that answers evictions as planned, in virtual time.

    Args:
        planned: by pod, the codes of its answers; then, and without any, it is gone.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **planned: list[int]) -> None:
        self.planned, self.now, self.rests = planned, 0.0, list[float]()
        self.bodies, self.queries = list[Any](), list[Any]()
        monkeypatch.setattr(drain, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))
        monkeypatch.setattr(drain, "objects_of", self.objects)
        monkeypatch.setattr(drain, "print_lines", lambda _: None)

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds

    def objects(self, _session: Any, listing: Any) -> Any:
        self.queries.append(dict(listing.query))
        return [owned(name) | {"metadata": owned(name)["metadata"] | {"uid": name}} for name in self.planned], "1"

    def request(self, _method: str, path: str, body: Any) -> None:
        self.bodies.append(body)
        name = path.split("/")[-2]
        if self.planned[name]:
            code = self.planned[name].pop(0)
            raise StatusError(code, "NotFound" if code == 404 else "", str(code))
        del self.planned[name]

    def drain(self, ends: float | None = None, **chosen: Any) -> None:
        options = {
            "ignore_daemonsets": False, "delete_emptydir_data": False, "force": False, "dry_run": "none",
            "pod_selector": "", "grace_period": -1, "disable_eviction": False, "timeout": "12s", **chosen,
        }  # fmt: skip
        pods = SimpleNamespace(path=lambda *parts: "/".join(parts))
        session: Any = SimpleNamespace(
            discovery=SimpleNamespace(one=lambda _: pods), client=self, print_remark=lambda _: None
        )
        node: Any = SimpleNamespace(name="n1")
        drain._Drain(session, SimpleNamespace(**options), node, {}, ends).run()


def test_evictions_are_tried_again_for_a_budget_only_and_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Answers(monkeypatch, a=[429, 429], b=[], c=[404])
    again.drain(pod_selector="app=web")
    assert (again.rests, {each.get("labelSelector") for each in again.queries}) == ([5, 5], {"app=web"})
    broken = Answers(monkeypatch, a=[500])
    with pytest.raises(KubectlError, match='error when evicting pods/"a"'):
        broken.drain()
    late = Answers(monkeypatch, a=[429] * 9)
    with pytest.raises(TimedOutError):
        late.drain(ends=12.0)
    assert late.rests == [5, 5, 2]
    given = Answers(monkeypatch, a=[])
    given.drain(grace_period=0, dry_run="server")
    assert given.bodies[0]["deleteOptions"] == {
        "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "dryRun": ["All"],
    }  # fmt: skip


class Machine:
    """Plays the node: ends the pods that are deleted, whenever the command waits."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cloud = cloud
        self.pauses: list[float] = []
        monkeypatch.setattr(drain._Drain, "_pause", lambda _, seconds: self.pause(seconds))

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        path = "/api/v1/namespaces/default/pods"
        for each in self._cloud.client.get(path)["items"]:
            if each["metadata"].get("deletionTimestamp"):
                name = each["metadata"]["name"]
                self._cloud.client.request("DELETE", f"{path}/{name}", body={"gracePeriodSeconds": 0})


def pods_of(cloud: Cloud) -> list[str]:
    found = cloud.client.get("/api/v1/namespaces/default/pods")["items"]
    return [each["metadata"]["name"] for each in found if not each["metadata"].get("deletionTimestamp")]


def test_a_node_is_cordoned_and_drained(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(cloud, monkeypatch)
    cloud.make(node(), pod("a", status=READY), pod("b", status=READY))
    refused = cloud.run("drain", "n1")
    assert (refused.status, refused.out) == (1, "node/n1 cordoned\n")
    why = "cannot delete Pods that declare no controller (use --force to override): default/a, default/b"
    assert refused.err.splitlines() == [
        f'error: unable to drain node "n1" due to error: {why}, continuing command...',
        "There are pending nodes to be drained:", " n1", f"error: {why}",
    ]  # fmt: skip
    dry = cloud.run("drain", "n1", "--force", "--dry-run=client")
    assert dry.lines[1:] == [
        "evicting pod default/a (dry run)", "evicting pod default/b (dry run)", "node/n1 drained (dry run)",
    ]  # fmt: skip
    server = cloud.run("drain", "n1", "--force", "--dry-run=server")
    assert server.lines[-3:] == [
        "evicting pod default/b", "pod/b evicted (server dry run)", "node/n1 drained (server dry run)",
    ]  # fmt: skip
    assert pods_of(cloud) == ["a", "b"]
    done = cloud.run("drain", "n1", "--force")
    assert (done.status, done.lines) == (0, [
        "node/n1 already cordoned", "evicting pod default/a", "evicting pod default/b", "pod/a evicted",
        "pod/b evicted", "node/n1 drained",
    ])  # fmt: skip
    assert done.err == "Warning: deleting Pods that declare no controller: default/a, default/b\n"
    assert set(machine.pauses) == {drain.POLL_SECONDS}
    assert cloud.run("drain", "n1").lines == ["node/n1 already cordoned", "node/n1 drained"]
    assert cloud.run("drain").status == 1
    assert "NotFound" in cloud.run("drain", "nothing").err


def test_nothing_is_drained_when_a_node_could_not_be_cordoned(cloud: Cloud) -> None:
    bound = pod("a")
    bound["spec"]["nodeName"] = "n1"
    cloud.make(node(), bound)
    assert cloud.run("drain", "n1", "nothing", "--force", "--timeout=1ms").status == 1
    assert "deletionTimestamp" not in cloud.client.get("/api/v1/namespaces/default/pods/a")["metadata"]


def budget(allowed: int) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "default"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
              "observedGeneration": 1}  # fmt: skip
    return {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": metadata, "spec": spec,
            "status": status}  # fmt: skip


@pytest.mark.parametrize("verb", ["drain", "cordon", "uncordon"])
def test_only_nodes_are_marked_and_drained(cloud: Cloud, verb: str) -> None:
    assert cloud.run(verb, "deployment/web").err == (
        f"error: `{verb}` takes nodes, which deployment/web is not; "
        "`cloudcore get pods -o wide` shows the node of each pod\n"
    )
    assert cloud.run(verb, "nodes/none").err == 'Error from server (NotFound): nodes "none" not found\n'


def test_an_eviction_that_a_budget_does_not_allow_is_tried_again(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(cloud, monkeypatch)
    cloud.make(node(), pod("a", labels={"app": "web"}, status=READY), budget(0))
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"

    def pause(seconds: float) -> None:
        if not machine.pauses:
            cloud.client.request("DELETE", path)
        Machine.pause(machine, seconds)

    monkeypatch.setattr(drain._Drain, "_pause", lambda _, seconds: pause(seconds))
    done = cloud.run("drain", "n1", "--force")
    why = "Cannot evict pod as it would violate the pod's disruption budget."
    assert done.err.splitlines()[1:] == [f'error when evicting pods/"a" -n "default" (will retry after 5s): {why}']
    assert (done.status, done.lines[1:]) == (0, [
        "evicting pod default/a", "evicting pod default/a", "pod/a evicted", "node/n1 drained",
    ])  # fmt: skip
    assert machine.pauses[0] == drain.RETRY_SECONDS


def test_a_pod_that_was_made_again_under_its_name_is_left(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a StatefulSet does while a budget holds the eviction up: the new pod may be on another node."""
    cloud.make(node(), node("n2"), pod("a", labels={"app": "web"}, status=READY), budget(0))
    path = "/api/v1/namespaces/default/pods/a"

    def pause(_self: object, _seconds: float) -> None:
        cloud.client.request("DELETE", path, body={"gracePeriodSeconds": 0})
        cloud.client.request("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web")
        again = pod("a", labels={"app": "web"}, status=READY)
        again["spec"]["nodeName"] = "n2"
        cloud.make(again)

    monkeypatch.setattr(drain._Drain, "_pause", pause)
    assert cloud.run("drain", "n1", "--force").status == 0
    assert "deletionTimestamp" not in cloud.client.get(path)["metadata"]


def test_the_time_is_over_and_budgets_can_be_passed_by(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.make(node(), pod("a", labels={"app": "web"}, status=READY), budget(0))
    late = cloud.run("drain", "n1", "--force", "--timeout=1ms")
    assert (late.status, late.err.splitlines()[-1]) == (1, "error: global timeout reached: 1ms")
    assert pods_of(cloud) == ["a"]
    Machine(cloud, monkeypatch)
    done = cloud.run("drain", "n1", "--force", "--disable-eviction", "--grace-period=1")
    assert (done.status, done.lines[-2:]) == (0, ["pod/a deleted", "node/n1 drained"])


def test_pods_of_a_silent_node_are_not_awaited(cloud: Cloud) -> None:
    silent = {**node(), "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    cloud.make(silent, pod("a"), pod("b"))
    done = cloud.run("drain", "n1", "--force")
    assert done.err.splitlines()[1:] == ['Warning: node "n1" does not answer: its pods end when it is back']
    assert (done.status, done.lines[-1]) == (0, "node/n1 drained")
    assert pods_of(cloud) == []
