"""What is counted for ResourceQuotas, and what they refuse, in kube-apiserver's words."""

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.quotas.ledger import QuotaLedger
from modules.cloud.apiserver.quotas.usage import written

QUOTA = ObjectKey("ResourceQuota", "shop", "q")


class World(Cluster):
    """A cluster whose ledger is told of the changes, as by the API server."""

    def settle(self) -> None:
        """Tell the ledger, and write the statuses."""
        self._tell()
        self.quotas.keep_statuses()
        self._tell()
        self.storage.set_savepoint()

    def _tell(self) -> None:
        for event in self.storage.drain_events():
            self.quotas.handle_event(event)

    def undo(self, version: int, *, is_told: bool) -> None:
        """Undo the changes since a version."""
        events = self.storage.drain_events()
        for event in events if is_told else ():
            self.quotas.handle_event(event)
        self.storage.undo(events[::-1], version)
        for event in events[::-1]:
            self.quotas.roll_back(event)

    def ask(self, obj: JsonObject) -> JsonObject:
        """Create an object as a user."""
        with self.within_quotas():
            made = self.create(obj)
        self.settle()
        return made

    def refusal(self, obj: JsonObject, *, is_update: bool = False) -> str:
        """Return why a user may not create or update an object."""
        with pytest.raises(ForbiddenError) as error, self.within_quotas():
            (self.update if is_update else self.create)(obj)
        return error.value.message

    @property
    def used(self) -> dict[str, str]:
        """What the status of the quota says."""
        found: dict[str, str] = self.storage.get(QUOTA)["status"]["used"]
        return found


@pytest.fixture
def world() -> Iterator[World]:
    """A world with the namespace `shop`."""
    made = World(Simulation(1).clock)
    made.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}})
    made.settle()
    yield made


def an_object(kind: str, name: str, version: str = "v1", **fields: Any) -> JsonObject:
    """An object of the namespace `shop`."""
    return {"kind": kind, "apiVersion": version, "metadata": {"name": name, "namespace": "shop"}, **fields}


def a_quota(name: str = "q", scopes: JsonObject | None = None, **hard: Any) -> JsonObject:
    """A quota; `__` in a name stands for a dot, and `___` for a slash."""
    amounts = {each.replace("___", "/").replace("__", "."): amount for each, amount in hard.items()}
    return an_object("ResourceQuota", name, spec={"hard": amounts, **(scopes or {})})


def a_pod(name: str = "p", cpu: str = "", limit: str = "", **spec: Any) -> JsonObject:
    """A pod of one container."""
    amounts = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return an_object("Pod", name, spec={"containers": [{"name": "c", "image": "i", "resources": amounts}], **spec})


def test_pods_beyond_the_bound_are_refused(world: World) -> None:
    world.ask(a_quota(pods="1", count___pods="5"))
    assert world.used == {"count/pods": "0", "pods": "0"}
    world.ask(a_pod("a"))
    assert world.used == {"count/pods": "1", "pods": "1"}
    assert world.refusal(a_pod("b")) == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    key = ObjectKey("Pod", "shop", "a")
    world.update_status(key, {**world.storage.get(key), "status": {"phase": "Succeeded"}})
    world.settle()
    assert world.used == {"count/pods": "1", "pods": "0"}
    world.ask(a_pod("b"))
    world.delete(key, grace=0)
    world.settle()
    assert world.used == {"count/pods": "1", "pods": "1"}


def test_a_pod_that_its_node_does_not_end_is_free_after_its_grace_period() -> None:
    """The node may be offline for days; a pod in its place could not be made."""
    simulation = Simulation(2)
    world = World(simulation.clock)
    world.ask(a_quota(pods="1", count___pods="3"))
    world.ask(a_pod("a", nodeName="n1"))
    world.delete(ObjectKey("Pod", "shop", "a"))
    world.settle()
    simulation.run_for(45)
    assert world.refusal(a_pod("b")).endswith("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")
    simulation.run_for(20)
    world.ask(a_pod("b"))
    assert world.refusal(a_pod("c")).endswith("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")
    assert world.used == {"count/pods": "2", "pods": "2"}


def test_a_pod_that_its_node_does_not_end_frees_nothing_of_a_quota_that_is_not_about_it() -> None:
    simulation = Simulation(2)
    world = World(simulation.clock)
    world.ask(a_quota(scopes={"scopes": ["BestEffort"]}, pods="1"))
    world.ask(a_pod("a", cpu="1", nodeName="n1"))
    world.delete(ObjectKey("Pod", "shop", "a"))
    world.ask(a_pod("b"))
    simulation.run_for(100)
    assert "exceeded quota" in world.refusal(a_pod("c"))


def test_amounts_of_containers(world: World) -> None:
    """They must be named, a limit is a request, and the sum is bounded; what does not count is free."""
    world.ask(a_quota(requests__cpu="1", limits__cpu="2", requests__memory="1Gi"))
    assert world.refusal(a_pod(cpu="1")) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: c'
    )
    world.storage.remove(QUOTA)
    world.settle()
    world.ask(a_quota(requests__cpu="1", limits__cpu="2"))
    world.ask(a_pod("a", cpu="600m", limit="1"))
    assert world.used == {"limits.cpu": "1", "requests.cpu": "600m"}
    assert world.refusal(a_pod("b", limit="1500m")).endswith(
        "exceeded quota: q, requested: limits.cpu=1500m,requests.cpu=1500m, used: limits.cpu=1,requests.cpu=600m, "
        "limited: limits.cpu=2,requests.cpu=1"
    )


def test_other_kinds(world: World) -> None:
    """By their number, claims by their storage, Services by their ports."""
    hard: JsonObject = {
        "configmaps": "1",
        "count___deployments__apps": "0",
        "requests__storage": "5Gi",
        "services__nodeports": "1",
    }
    world.ask(a_quota(**hard))
    world.ask(an_object("ConfigMap", "a"))
    assert "exceeded quota: q, requested: configmaps=1" in world.refusal(an_object("ConfigMap", "b"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "6Gi"}}}
    told = world.refusal(an_object("PersistentVolumeClaim", "c", spec=claim))
    assert told.endswith("requested: requests.storage=6Gi, used: requests.storage=0, limited: requests.storage=5Gi")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert "count/deployments.apps=1" in world.refusal(an_object("Deployment", "d", "apps/v1", spec=spec))
    service = an_object("Service", "s", spec={"ports": [{"port": 80}]})
    made = world.ask(service)
    grown = {**made["spec"], "type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}
    assert "requested: services.nodeports=2" in world.refusal({**made, "spec": grown}, is_update=True)


_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("secrets", an_object("Secret", "a")),
        ("configmaps", an_object("ConfigMap", "a")),
        ("services", an_object("Service", "a", spec={"ports": [{"port": 80}]})),
        ("replicationcontrollers", an_object("ReplicationController", "a", spec={"template": _TEMPLATE})),
        (
            "count/replicasets.apps",
            an_object(
                "ReplicaSet", "a", "apps/v1", spec={"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
            ),
        ),
    ],
)
def test_an_object_counts_while_it_is_there(world: World, name: str, made: JsonObject) -> None:
    world.ask(an_object("ResourceQuota", "q", spec={"hard": {name: "3"}}))
    assert world.used == {name: "0"}
    world.ask(made)
    assert world.used == {name: "1"}
    world.storage.remove(key_of(made))
    world.settle()
    assert world.used == {name: "0"}


def test_node_ports_that_are_given_count_also_where_none_are_allocated(world: World) -> None:
    world.ask(a_quota(services__nodeports="0"))
    spec: JsonObject = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}
    world.ask(an_object("Service", "a", spec=spec))
    given = {**spec, "ports": [{"port": 80, "nodePort": 30080}]}
    assert "requested: services.nodeports=1" in world.refusal(an_object("Service", "b", spec=given))


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, a_pod(), a_pod(cpu="1")),
        ({"scopes": ["NotBestEffort"]}, a_pod(cpu="1"), a_pod()),
        ({"scopes": ["Terminating"]}, a_pod(activeDeadlineSeconds=5), a_pod()),
        ({"scopes": ["NotTerminating"]}, a_pod(), a_pod(activeDeadlineSeconds=5)),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}},
            a_pod(priorityClassName="system-node-critical"),
            a_pod(priorityClassName="other"),
        ),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["system-node-critical"]}]}},
            a_pod(),
            a_pod(priorityClassName="system-node-critical"),
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            a_pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "z", "namespaces": ["other"], "labelSelector": {}}]}}),
            a_pod(),
        ),
    ],
)  # fmt: skip
def test_scopes(world: World, scopes: JsonObject, inside: JsonObject, outside: JsonObject) -> None:
    world.ask(a_quota(scopes=scopes, pods="0"))
    assert "exceeded quota: q, requested: pods=1" in world.refusal(inside)
    world.ask(outside)
    assert world.used == {"pods": "0"}


def test_the_mirror_pods_of_a_node_use_up_no_quota(world: World) -> None:
    """A node makes them in any namespace; an object of another kind with their mark counts."""
    world.ask(a_quota(pods="1", count___configmaps="1"))
    made, mark = a_pod("static-n1", "9", nodeName="n1"), {"annotations": {"kubernetes.io/config.mirror": "x"}}
    world.create({**made, "metadata": {**made["metadata"], **mark}})
    world.settle()
    assert world.used == {"pods": "0", "count/configmaps": "0"}
    world.ask(a_pod("a"))
    config_map = an_object("ConfigMap", "c")
    world.ask({**config_map, "metadata": {**config_map["metadata"], **mark}})
    assert world.used == {"pods": "1", "count/configmaps": "1"}


def test_the_class_that_a_node_reports_counts_for_nothing(world: World) -> None:
    """Its pods would leave the quota when they are deleted, without having entered it."""
    world.ask(a_quota(scopes={"scopes": ["BestEffort"]}, pods="1"))
    key = key_of(world.ask(a_pod(cpu="1")))
    live = world.storage.get(key)
    world.update_status(key, {**live, "status": {**live["status"], "qosClass": "BestEffort"}})
    world.settle()
    world.storage.remove(key)
    world.settle()
    assert world.used == {"pods": "0"}


@pytest.mark.parametrize("is_told", [True, False])
def test_undone_changes_do_not_count(world: World, is_told: bool) -> None:
    """Of a dry run the ledger is told nothing but that it is over."""
    world.ask(a_quota(pods="1"))
    before = world.storage.version
    world.create(a_pod("a"))
    world.undo(before, is_told=is_told)
    world.ask(a_pod("b"))
    assert world.used == {"pods": "1"}


def test_a_quota_that_comes_later_counts_what_there_is_and_an_old_one_loses_its_bounds(world: World) -> None:
    world.ask(a_pod("a"))
    world.ask(a_pod("b"))
    made = world.ask(a_quota(pods="1"))
    assert world.used == {"pods": "2"}
    assert "used: pods=2" in world.refusal(a_pod("c"))
    world.update({**made, "metadata": {"name": "q", "namespace": "shop"}, "spec": {"hard": {"pods": "3"}}})
    world.settle()
    world.ask(a_pod("c"))
    world.delete(QUOTA)
    world.settle()
    world.ask(a_pod("d"))


def test_an_update_is_refused_only_for_more_than_its_former_state(world: World) -> None:
    """Not what the object has already, though its quota came later; but all of it when it comes into a scope."""
    made = world.ask(a_pod("a"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "6Gi"}}}
    world.ask(an_object("PersistentVolumeClaim", "c", spec=claim))
    world.ask(a_quota(requests__cpu="0", requests__storage="5Gi"))
    world.ask(a_quota("ending", {"scopes": ["Terminating"]}, pods="0"))
    for kind, name in (("Pod", "a"), ("PersistentVolumeClaim", "c")):
        stored = world.storage.get(ObjectKey(kind, "shop", name))
        with world.within_quotas():
            world.update({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})
        world.settle()
    ends = {**made, "metadata": {"name": "a", "namespace": "shop"}}
    ends["spec"] = {**made["spec"], "activeDeadlineSeconds": 5}
    assert "exceeded quota: ending, requested: pods=1" in world.refusal(ends, is_update=True)


def test_a_quota_that_is_undone_bounds_nothing(world: World) -> None:
    before = world.storage.version
    world.create(a_quota(pods="0"))
    events = world.storage.drain_events()
    for event in events:
        world.quotas.handle_event(event)
    assert "exceeded quota" in world.refusal(a_pod("a"))
    world.storage.undo(events[::-1], before)
    for event in events[::-1]:
        world.quotas.roll_back(event)
    world.ask(a_pod("a"))


def test_objects_that_are_loaded_again_have_their_own_quotas_only(world: World) -> None:
    """Another cloudcore has deleted one in the meantime, and its deletion was not seen."""
    world.ask(a_quota(pods="0"))
    assert "exceeded quota" in world.refusal(a_pod("a"))
    world.storage.remove(QUOTA)
    world.storage.drain_events()
    world.quotas.load()
    world.ask(a_pod("a"))


@pytest.mark.parametrize("seed", range(5))
def test_differences_add_up_to_a_count_of_all(world: World, seed: int) -> None:
    """Whatever happens, in whatever order, also if it is undone."""
    chance = random.Random(seed)  # noqa: S311 - reproducible on purpose
    hard: JsonObject = {
        "pods": "90",
        "requests__cpu": "90",
        "count___pods": "90",
        "resourcequotas": "90",
        "configmaps": "90",
    }
    for step in range(120):
        name = f"o{chance.randrange(8)}"
        pod, quota = ObjectKey("Pod", "shop", name), ObjectKey("ResourceQuota", "shop", f"q{chance.randrange(3)}")
        before = world.storage.version
        match chance.randrange(5):
            case 0 if world.storage.find(pod) is None:
                world.create(a_pod(name, cpu=chance.choice(["", "1", "250m"])))
            case 1 if (live := world.storage.find(pod)) is not None:
                phase = chance.choice(["Running", "Succeeded"])
                world.update_status(pod, {**live, "status": {**live["status"], "phase": phase}})
            case 2 if world.storage.find(pod) is not None:
                world.storage.remove(pod)
            case 3 if world.storage.find(quota) is None:
                world.create(a_quota(quota.name, None, **dict(chance.sample(sorted(hard.items()), 3))))
            case 4 if world.storage.find(quota) is not None and chance.random() < 0.3:
                world.storage.remove(quota)
        if chance.random() < 0.2:
            world.undo(before, is_told=chance.random() < 0.5)
        world.settle()
        anew = QuotaLedger(world.storage, world.clock)
        anew.load()
        counted = {key_of(quota): quota["status"] for quota in anew.drain_changed()}
        assert counted == {key_of(each): each["status"] for each in world.storage.list(kind_named("ResourceQuota"))}, (
            step
        )


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("requests.memory", 64 * 2**20, "64Mi"),
        ("requests.memory", 300_000_000, "300M"),
        ("requests.memory", 1000, "1k"),
        ("requests.storage", 2**30, "1Gi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("requests.hugepages-2Mi", 2**21, "2Mi"),
        ("requests.cpu", 1024, "1024"),
        ("limits.cpu", Fraction(1, 2), "500m"),
        ("pods", 2048, "2048"),
        ("memory", 0, "0"),
    ],
)
def test_amounts_are_written_as_in_kubernetes(name: str, amount: int | Fraction, text: str) -> None:
    assert written(name, Fraction(amount)) == text
