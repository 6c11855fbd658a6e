"""DaemonSets, in virtual time."""

from typing import Any, Final

import pytest

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import ApiCall
from modules.cloud.controllers.daemon_pods import target_node
from modules.cloud.controllers.daemon_set import reconcile
from modules.cloud.controllers.pods import available_from, owner_reference
from modules.cloud.controllers.revisions import revisions_of
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import Site, image_of, new_image, site_of, workload, written_status

TEN = tuple(f"n{number}" for number in range(10))


def site_with(nodes: tuple[str, ...] = ("n1", "n2", "n3"), seed: int = 0, **spec: Any) -> Site:
    return site_of(workload("DaemonSet", "agent", **spec), seconds=60, seed=seed, nodes=nodes)


def daemon_set(site: Site) -> JsonObject:
    return site.get("DaemonSet", "agent")


def places(site: Site) -> list[str]:
    return sorted(node_of(pod) for pod in site.pods())


def set_node(site: Site, name: str, changes: JsonObject) -> None:
    site.patch(ObjectKey("Node", "", name), changes, seconds=10)


def images(site: Site) -> dict[str, str]:
    return {node_of(pod): image_of(pod) for pod in site.pods()}


def test_pods_on_the_nodes_network_get_the_ports_that_their_template_leaves_out() -> None:
    container = {"name": "main", "image": "app:1", "ports": [{"containerPort": 9100}]}
    pods = {"metadata": {"labels": {"app": "agent"}}, "spec": {"hostNetwork": True, "containers": [container]}}
    site = site_with(("n1",), template=pods)
    (pod,) = site.pods()
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}]
    assert "hostPort" not in daemon_set(site)["spec"]["template"]["spec"]["containers"][0]["ports"][0]


@pytest.fixture
def site() -> Site:
    """A site of three nodes with a DaemonSet."""
    return site_with()


def test_each_node_has_one_and_a_new_one_gets_one(site: Site) -> None:
    assert places(site) == ["n1", "n2", "n3"]
    site.add_node("n4", seconds=10)
    assert places(site) == ["n1", "n2", "n3", "n4"]
    status = daemon_set(site)["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (4, 4, 4)
    assert site.is_settled()


def test_a_node_that_takes_no_other_pods_has_one(site: Site) -> None:
    site.add_node("n4", unschedulable=True, seconds=10)
    assert places(site) == ["n1", "n2", "n3", "n4"]


def test_a_pod_that_fails_does_not_wait_for_failures_on_other_nodes(site: Site) -> None:
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    for pod in site.pods():
        site.report(pod, "Failed")
    site.run_for(1.5)
    assert not before & {pod["metadata"]["uid"] for pod in site.pods()}
    assert places(site) == ["n1", "n2", "n3"]


def test_a_pod_of_a_deleted_node_waits_as_any_other_pod(site: Site) -> None:
    """The Node registers again while its edgecore lives; KCM leaves its pod to the collector of pods, too."""
    (pod,) = [pod for pod in site.pods() if node_of(pod) == "n3"]
    site.call("delete", ObjectKey("Node", "", "n3"), seconds=20)
    status = daemon_set(site)["status"]
    assert (places(site), status["desiredNumberScheduled"], status["numberMisscheduled"]) == (["n1", "n2", "n3"], 2, 0)
    site.add_node("n3", seconds=100)
    assert pod["metadata"]["uid"] in {one["metadata"]["uid"] for one in site.pods()}
    site.call("delete", ObjectKey("Node", "", "n3"), seconds=100)
    assert places(site) == ["n1", "n2"]


def test_revisions_of_old_pods_count_for_the_history() -> None:
    """KCM's cleanupHistory; each is kept as long as a pod has it."""
    site = site_with(revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})
    for image in ("app:2", "app:3"):
        site.patch(daemon_set(site), new_image(image), seconds=10)
    kept = {one["data"]["spec"]["template"]["spec"]["containers"][0]["image"] for one in site.all("ControllerRevision")}
    assert kept == {"app:1", "app:3"}


def test_labels_and_taints_decide() -> None:
    site = Site()
    set_node(site, "n1", {"metadata": {"labels": {"zone": "a"}}})
    set_node(site, "n2", {"metadata": {"labels": {"zone": "a"}}})
    wanted = workload("DaemonSet", "agent")
    wanted["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    site.apply(wanted, seconds=10)
    assert places(site) == ["n1", "n2"]
    set_node(site, "n1", {"metadata": {"labels": {"zone": None}}})
    assert places(site) == ["n2"]
    set_node(site, "n2", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    assert places(site) == ["n2"]  # kept, and not made
    status = daemon_set(site)["status"]
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 1)
    set_node(site, "n2", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})
    assert places(site) == []
    set_node(site, "n2", {"spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}})
    assert places(site) == ["n2"]


@pytest.mark.parametrize("seed", range(3))
def test_a_rolling_update_keeps_its_bounds(seed: int) -> None:
    site = site_with(TEN, seed, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})

    def check(site: Site) -> None:
        assert sum(is_ready(pod) and not is_being_deleted(pod) for pod in site.all("Pod")) >= 8
        assert len([pod for pod in site.pods() if pod["metadata"].get("ownerReferences")]) <= 10

    site.checks.append(check)
    site.patch(daemon_set(site), new_image("app:2"), seconds=120)
    assert images(site) == dict.fromkeys(TEN, "app:2")
    assert daemon_set(site)["status"]["updatedNumberScheduled"] == 10
    assert sorted(one["revision"] for one in site.all("ControllerRevision")) == [1, 2]


def test_nodes_that_are_away_use_up_no_budget_and_have_their_turn_later() -> None:
    site = site_with(TEN)
    site.fall_silent("n1", "n2", "n3")
    old = {node_of(pod): pod["metadata"]["uid"] for pod in site.pods()}
    site.patch(daemon_set(site), new_image("app:2"), seconds=300)
    found = images(site)
    assert sorted(name for name in found if found[name] == "app:1") == ["n1", "n2", "n3"]
    assert {node_of(pod): pod["metadata"]["uid"] for pod in site.pods()}["n1"] == old["n1"]
    site.come_back("n1", "n2", "n3", seconds=60)
    assert images(site) == dict.fromkeys(TEN, "app:2")


def test_a_version_that_takes_its_node_down_does_not_spread() -> None:
    site = site_with(TEN)
    down: set[str] = set()

    def ready_after(pod: JsonObject) -> float | None:
        if image_of(pod) != "app:2":
            return 1.0
        down.add(node_of(pod))
        return None

    site.ready_after = ready_after
    site.patch(daemon_set(site), new_image("app:2"), seconds=30)
    site.fall_silent(*down, seconds=600)
    assert len(down) == 1
    assert sorted(images(site).values()).count("app:2") == 1
    site.ready_after = lambda _: 1.0
    site.patch(daemon_set(site), new_image("app:1"))
    site.come_back(*down, seconds=60)
    assert images(site) == dict.fromkeys(TEN, "app:1")


READY_FOR: Final = {"old": 500, "new": 500, "older": 90, "young": 60, "younger": 30, "fresh": 5}
"""Seconds for which a pod has been ready, of the 100 until it is available; "fresh" and "new" have the new template."""


@pytest.mark.parametrize(
    ("pods", "bounds", "expected"),
    [
        (["old", "old", "old"], {"maxUnavailable": 1}, "0"),
        (["old", "old", "old"], {"maxUnavailable": "34%"}, "0 1"),
        (["old", "old", "old"], {"maxUnavailable": "1%"}, "0"),
        (["old", "new", "fresh"], {"maxUnavailable": 1}, ""),
        (["old", "old", "fresh"], {"maxUnavailable": 2}, "0"),
        (["old", "broken", "old"], {"maxUnavailable": 1}, "1"),
        (["old", "broken", "broken"], {"maxUnavailable": 1}, "1 2"),
        (["old", "older", "younger", "young"], {"maxUnavailable": 1}, "2"),
        (["young", "younger", "older", "old"], {"maxUnavailable": 2}, "0 1"),
        (["older", "old", "young"], {"maxUnavailable": "67%"}, "0 1 2"),
        (["old", "old", "old"], {"maxSurge": "34%", "maxUnavailable": 0}, "+0 +1"),
        (["old", "broken", "old"], {"maxSurge": 1, "maxUnavailable": 0}, "+0 +1"),
        (["-old", "old", "fresh"], {"maxSurge": 1, "maxUnavailable": 0}, "+0"),
        (["-old", "old"], {"maxUnavailable": 1}, ""),
        (["!old", "old"], {"maxUnavailable": 1}, "0"),
        (["!old", "new"], {"maxUnavailable": 1}, "0"),
        (["!old", "old", "new"], {"maxSurge": 1, "maxUnavailable": 0}, "+1 0"),
        (["!old", "fresh", "new"], {"maxSurge": 1, "maxUnavailable": 0}, ""),
        (["!broken", "new"], {"maxSurge": 1, "maxUnavailable": 0}, "0"),
    ],
)
def test_which_pods_a_look_replaces(pods: list[str], bounds: JsonObject, expected: str) -> None:
    """Percentages are rounded up, both; pods that are not ready go at once, then those that became ready last. The
    numbers are nodes, with a "+" those that get a second pod. A pod with a "-" is being deleted, and a node with a "!"
    has a taint that keeps other pods away.
    """
    site = Site(0, tuple(map(str, range(len(pods)))))
    site.apply(workload("DaemonSet", "agent", minReadySeconds=100, updateStrategy={"rollingUpdate": bounds}))
    made = {node_of(pod): pod for pod in site.pods()}
    site.patch(daemon_set(site), new_image("app:2"))
    new = max(site.all("ControllerRevision"), key=lambda one: int(one["revision"]))
    view, now = View(), site.clock.now() + 1000
    for obj in (daemon_set(site), *site.all("ControllerRevision"), *site.all("Node")):
        is_tainted = obj["kind"] == "Node" and pods[int(obj["metadata"]["name"])].startswith("!")
        view.put({**obj, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}} if is_tainted else obj)
    for node, given in enumerate(pods):
        state = given.lstrip("-!")
        pod, seconds = made[str(node)], READY_FOR.get(state)
        since = format_rfc3339(now - (seconds or 500))
        ready = {"type": "Ready", "status": "True" if seconds else "False", "lastTransitionTime": since}
        metadata = {**pod["metadata"], "creationTimestamp": since}
        if given.startswith("-"):
            metadata["deletionTimestamp"] = since
        if state in ("new", "fresh"):
            metadata["labels"] = {**metadata["labels"], **new["metadata"]["labels"]}
        view.put({**pod, "metadata": metadata, "status": {"phase": "Running", "conditions": [ready]}})
    calls = [write.call for write in reconcile(view, key_of(daemon_set(site)), now).writes]
    gone = [node for node, pod in made.items() if pod["metadata"]["name"] in {one.name for one in calls}]
    more = [f"+{target_node(call.body)}" for call in calls if call.verb == "create" and call.body]
    assert sorted(gone + more) == expected.split()


@pytest.mark.parametrize(
    ("ages", "unbound", "kept"), [([50, 90, 70], (), 1), ([50, 90, 70], (1,), 2), ([50, 90, 70], (0, 1, 2), 1)]
)
def test_of_several_pods_of_a_node_the_oldest_stays_of_the_bound_ones_if_there_are_any(
    ages: list[int], unbound: tuple[int, ...], kept: int
) -> None:
    site = site_with(("n1",))
    view, now, (live,) = View(), site.clock.now(), site.pods()
    for obj in (daemon_set(site), *site.all("ControllerRevision"), *site.all("Node")):
        view.put(obj)
    for number, age in enumerate(ages):
        name = f"p{number}"
        metadata = {**live["metadata"], "name": name, "uid": name, "creationTimestamp": format_rfc3339(now - age)}
        spec = {**live["spec"], "nodeName": "" if number in unbound else "n1"}
        view.put({**live, "metadata": metadata, "spec": spec})
    gone = {write.call.name for write in reconcile(view, key_of(daemon_set(site)), now).writes}
    assert gone == {"p0", "p1", "p2"} - {f"p{kept}"}


def test_a_template_with_a_node_name_has_a_pod_on_that_node_only() -> None:
    site = Site()
    agent = workload("DaemonSet", "agent")
    agent["spec"]["template"]["spec"]["nodeName"] = "n2"
    site.apply(agent, seconds=10)
    assert places(site) == ["n2"]
    assert daemon_set(site)["status"]["desiredNumberScheduled"] == 1


def test_of_a_deleted_node_the_pods_that_wait_go_and_the_bound_ones_are_left_to_others() -> None:
    """The Node may register again, and its pods still run."""
    site = site_with(("n1", "n2"))
    view, now, pods = View(), site.clock.now(), {node_of(pod): pod for pod in site.pods()}
    (node,) = [one for one in site.all("Node") if one["metadata"]["name"] == "n2"]
    for obj in (daemon_set(site), *site.all("ControllerRevision"), node, *pods.values()):
        view.put(obj)
    bound = pods["n1"]
    spec = {name: value for name, value in bound["spec"].items() if name != "nodeName"}
    view.put({**bound, "metadata": {**bound["metadata"], "name": "waits", "uid": "waits"}, "spec": spec})
    plan = reconcile(view, key_of(daemon_set(site)), now)
    assert [(write.call.verb, write.call.name) for write in plan.writes] == [("delete", "waits")]
    status = written_status(plan)
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (1, 1)


def test_a_pod_that_has_succeeded_is_made_again_without_a_pause() -> None:
    site = site_with(("n1",))
    (pod,) = site.pods()
    site.report(pod, "Succeeded", seconds=2)
    (new,) = site.pods()
    assert new["metadata"]["uid"] != pod["metadata"]["uid"]
    assert "SucceededDaemonPod" in {reason for reason, _ in site.events()}


def test_with_a_surge_the_old_pod_goes_when_the_new_one_is_available() -> None:
    site = site_with(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})

    def check(site: Site) -> None:
        ready = {node_of(pod) for pod in site.pods() if is_ready(pod)}
        assert ready == {"n1", "n2", "n3"}
        assert sum(not is_ready(pod) for pod in site.pods()) <= 1

    site.checks.append(check)
    site.patch(daemon_set(site), new_image("app:2"), seconds=60)
    assert images(site) == dict.fromkeys(("n1", "n2", "n3"), "app:2")


def test_with_a_surge_an_old_pod_that_ends_slowly_is_deleted_once() -> None:
    site = site_with(("n1",), updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    deleted = list[str]()

    def fall_away(call: ApiCall) -> None:
        """The node has no link from the moment of the deletion on."""
        if call.verb == "delete":
            deleted.append(call.name)
            site.offline.add("n1")

    site.answer = fall_away
    site.patch(daemon_set(site), new_image("app:2"), seconds=60)
    site.engine.enqueue_all()
    site.run_for(60)
    assert len(deleted) == 1
    assert images(site) == {"n1": "app:2"}


def test_with_a_surge_old_pods_stay_until_new_ones_are_available_and_silent_nodes_get_none() -> None:
    site = site_with(minReadySeconds=30, updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    site.run_for(60)
    site.fall_silent("n3")

    def check(site: Site) -> None:
        now = site.clock.now()
        available = [pod for pod in site.pods() if available_from(pod, 30, now) <= now]
        assert {node_of(pod) for pod in available} >= {"n1", "n2"}
        assert sum(image_of(pod) == "app:2" and pod not in available for pod in site.pods()) <= 1

    site.checks.append(check)
    site.patch(daemon_set(site), new_image("app:2"), seconds=300)
    assert images(site) == {"n1": "app:2", "n2": "app:2", "n3": "app:1"}
    assert len(site.pods()) == 3


def test_a_surge_that_becomes_on_delete_leaves_one_pod_on_each_node() -> None:
    site = site_with(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    site.ready_after = lambda pod: None if image_of(pod) == "app:2" else 1.0
    site.patch(daemon_set(site), new_image("app:2"), seconds=30)
    assert len(site.pods()) == 4
    site.patch(daemon_set(site), {"spec": {"updateStrategy": {"type": "OnDelete"}}}, seconds=30)
    assert images(site) == dict.fromkeys(("n1", "n2", "n3"), "app:1")
    assert len(site.pods()) == 3


def test_a_percentage_is_of_the_nodes_that_are_to_have_a_pod() -> None:
    """Half of two, although there are six nodes."""
    nodes = tuple(f"n{number}" for number in range(6))
    site = Site(0, nodes)
    for name in nodes[:2]:
        set_node(site, name, {"metadata": {"labels": {"camera": "yes"}}})
    made = workload("DaemonSet", "agent", updateStrategy={"rollingUpdate": {"maxUnavailable": "50%"}})
    made["spec"]["template"]["spec"]["nodeSelector"] = {"camera": "yes"}
    site.apply(made, seconds=60)
    assert places(site) == ["n0", "n1"]
    site.checks.append(lambda site: _check_available(site, 1))
    site.patch(daemon_set(site), {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}})
    site.run_for(60)
    assert images(site) == {"n0": "app:2", "n1": "app:2"}


def _check_available(site: Site, least: int) -> None:
    assert sum(map(is_ready, site.pods())) >= least


def test_with_a_surge_a_version_that_takes_its_node_down_does_not_spread() -> None:
    """The new pod of a node that is silent since it has it counts; its old one goes if the new one was available."""
    site = site_with(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    site.ready_after = lambda pod: None if image_of(pod) == "app:2" else 1.0
    site.patch(daemon_set(site), new_image("app:2"), seconds=5)
    (first,) = [pod for pod in site.pods() if image_of(pod) == "app:2"]
    site.fall_silent(node_of(first), seconds=600)
    assert [pod["metadata"]["name"] for pod in site.pods() if image_of(pod) == "app:2"] == [first["metadata"]["name"]]
    assert len(site.pods()) == 4


def test_a_broken_pod_uses_up_the_budget_while_it_is_replaced(site: Site) -> None:
    broken = next(pod for pod in site.pods() if node_of(pod) == "n2")
    site.report(broken, "Running", ready=False)

    def check(site: Site) -> None:
        assert {node_of(pod) for pod in site.pods() if is_ready(pod)} >= {"n1", "n3"} or images(site)["n2"] == "app:2"

    site.checks.append(check)
    site.patch(daemon_set(site), new_image("app:2"), seconds=60)
    assert images(site) == dict.fromkeys(("n1", "n2", "n3"), "app:2")


def test_a_second_update_leaves_pods_that_are_not_available_yet() -> None:
    site = site_of(workload("DaemonSet", "agent", minReadySeconds=100), seconds=50, seed=0, nodes=TEN)

    def check(site: Site) -> None:
        assert sum(map(is_ready, site.pods())) >= 9

    site.checks.append(check)
    site.patch(daemon_set(site), new_image("app:2"), seconds=3000)
    assert images(site) == dict.fromkeys(TEN, "app:2")


def test_a_third_version_within_min_ready_seconds_leaves_available_pods() -> None:
    site = site_with(TEN, minReadySeconds=30)
    site.run_for(60)
    site.checks.append(lambda site: at_least_nine_available(site, 30))
    site.patch(daemon_set(site), new_image("app:2"), seconds=50)
    assert sorted(images(site).values()) == ["app:1"] * 8 + ["app:2"] * 2
    site.patch(daemon_set(site), new_image("app:3"), seconds=10)
    assert sorted(images(site).values()) == ["app:1"] * 8 + ["app:2", "app:3"], (
        "the one that is not available goes first"
    )
    site.run_for(3000)
    assert images(site) == dict.fromkeys(TEN, "app:3")


def at_least_nine_available(site: Site, seconds: int) -> None:
    now = site.clock.now()
    assert sum(available_from(pod, seconds, now) <= now for pod in site.pods()) >= 9


def test_a_pod_that_fails_each_second_is_replaced_ever_more_slowly() -> None:
    site = site_with(("n1",))
    made = 0
    for _ in range(600):
        for pod in site.pods():
            if pod["status"]["phase"] != "Failed":
                made += 1
                site.report(pod, "Failed", containerStatuses=[{"name": "main"}])
        site.run_for(1)
    assert made < 12
    assert any(reason == "FailedDaemonPod" for reason, _ in site.events())


def test_two_daemon_sets_with_a_failing_pod_on_one_node_wait_for_themselves() -> None:
    site = site_of(*(workload("DaemonSet", name) for name in "ab"), nodes=("n1",), seconds=2)
    for pod in site.pods():
        site.report(pod, "Failed")
    site.run_for(0.1)
    assert len(site.engine.view.pauses._pauses) == 2


def test_undone_by_a_revision(site: Site) -> None:
    """`rollout undo` writes the data of a revision, which then becomes the newest one."""
    site.patch(daemon_set(site), new_image("app:2"), seconds=60)
    first = min(site.all("ControllerRevision"), key=lambda one: int(one["revision"]))
    data = first["data"]["spec"]["template"]
    site.patch(daemon_set(site), {"spec": {"template": {"spec": data["spec"]}}}, seconds=60)
    assert set(images(site).values()) == {"app:1"}
    assert sorted(one["revision"] for one in site.all("ControllerRevision")) == [2, 3]
    site.patch(daemon_set(site), new_image("app:3"), seconds=60)
    assert sorted(one["revision"] for one in site.all("ControllerRevision")) == [2, 3, 4]


def test_a_revision_has_the_annotations_of_its_time() -> None:
    """`kubectl rollout history` shows the cause of each change (`kubernetes.io/change-cause`)."""
    site, cause = site_with(), "kubernetes.io/change-cause"
    site.patch(daemon_set(site), {"metadata": {"annotations": {cause: "app 2"}}, **new_image("app:2")}, seconds=60)
    found = {one["revision"]: one["metadata"]["annotations"].get(cause) for one in site.all("ControllerRevision")}
    assert found == {1: None, 2: "app 2"}


@pytest.mark.parametrize("names", ["cab", "bca", "abc"])
def test_revisions_of_one_number_go_by_age_and_then_by_name(names: str) -> None:
    """KCM's byRevision. Numbers are compared as numbers."""
    view, made = View(), workload("DaemonSet", "agent")
    made["metadata"] |= {"namespace": "default", "uid": "d"}
    numbers, ages = {"a": 9, "b": 9, "c": 9, "d": 10}, {"a": 2.0, "b": 2.0, "c": 1.0, "d": 0.0}
    for name in f"d{names}":
        metadata = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner_reference(made)],
                    "creationTimestamp": format_rfc3339(ages[name]), "resourceVersion": "1"}  # fmt: skip
        view.put({"kind": "ControllerRevision", "metadata": metadata, "revision": numbers[name]})
    assert [one["metadata"]["name"] for one in revisions_of(view, made).old] == ["c", "a", "b", "d"]


def test_two_templates_with_one_hash_are_two_revisions(site: Site) -> None:
    """The second one of a DaemonSet gets another name (KCM's CreateControllerRevision)."""
    (first,) = site.all("ControllerRevision")
    template = {"$patch": "replace", **daemon_set(site)["spec"]["template"], "spec": {"containers": []}}
    site.cluster.storage.replace({**first, "data": {"spec": {"template": template}}})
    site.settle()
    site.add_node("n4", seconds=60)
    assert daemon_set(site)["status"]["collisionCount"] == 1
    assert len({one["metadata"]["name"] for one in site.all("ControllerRevision")}) == 2
    assert places(site) == ["n1", "n2", "n3", "n4"]


def test_with_a_surge_an_old_pod_that_is_not_ready_goes_at_once_but_on_a_silent_node() -> None:
    site = site_with(updateStrategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}})
    site.ready_after = lambda _: None
    site.patch(daemon_set(site), new_image("app:2"), seconds=10)
    assert len(site.pods()) == 6
    site.fall_silent("n3")
    for pod in site.pods():
        if image_of(pod) == "app:1" and node_of(pod) in ("n2", "n3"):
            site.report(pod, "Running", ready=False)
    site.run_for(10)
    assert sorted(node_of(pod) for pod in site.pods() if image_of(pod) == "app:1") == ["n1", "n3"]
