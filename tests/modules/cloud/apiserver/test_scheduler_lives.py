"""Law of the scheduler: what it remembers between pods, and between looks, changes no decision.

A placer that has placed others decides as one that is made of the present objects.
"""

from random import Random

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.cloud.apiserver.pod_scheduled import nominated_node, with_nominated_node
from modules.cloud.apiserver.scheduler import Placer
from modules.cloud.apiserver.scheduling.preemption import Preemption
from modules.cloud.apiserver.scheduling.rooms import NodeRooms
from tests.modules.cloud.apiserver.test_preemption import a_node, a_pod

_ZONE = "topology.kubernetes.io/zone"


def _node(random: Random, name: str) -> JsonObject:
    found = a_node(name, random.choice(("1", "2")), random.choice(("2", "3")), random.choice(("True", "True", "False")))
    found["metadata"]["labels"][_ZONE] = random.choice(("z1", "z2"))
    if random.random() < 0.2:
        found["spec"]["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    return found


def _pod(random: Random, name: str) -> JsonObject:
    app = random.choice(("a", "b"))
    spec: JsonObject = {}
    match random.choice((0, 0, 1, 1, 2, 3, 4, 5)):
        case 0:
            other = random.choice(("a", "b"))
            rule = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": "kubernetes.io/hostname"}
            of = random.choice(("podAntiAffinity", "podAffinity"))
            spec["affinity"] = {of: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
        case 1:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": app}}}
            ]  # fmt: skip
        case 2:
            spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
        case 3:
            spec["nodeSelector"] = {_ZONE: "z1"}
        case 4:
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n1"]}]}
            terms = [term, *random.choice(([], [{"matchExpressions": [{"key": _ZONE, "operator": "Exists"}]}]))]
            required = {"nodeSelectorTerms": terms}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = a_pod(name, cpu=random.choice(("500m", "1", "0")), priority=random.choice((0, 0, 10, 20)),
                  port=random.choice((0, 0, 80)), **spec)  # fmt: skip
    found["metadata"] |= {"labels": {"app": app}, "namespace": random.choice(("x", "x", "y"))}
    return found


def _named(pod: JsonObject, name: str) -> JsonObject:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def _bound(pod: JsonObject, node: str) -> JsonObject:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _words(found: Preemption | None) -> object:
    return found and (found.node, [key_of(each) for each in found.victims], found.broken)


class Fleet:
    """Nodes and pods, as the storage has them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = {name: _node(random, name) for name in ("n1", "n2", "n3")}
        self.pods: dict[ObjectKey, JsonObject] = {}
        self.waiting: dict[ObjectKey, JsonObject] = {}
        self.kept = NodeRooms()
        """What the scheduler keeps between two looks."""

    def placer(self, rooms: NodeRooms) -> Placer:
        """Return a placer for what there is now."""
        rooms.set_nodes(list(self.nodes.values()))
        for name in self.nodes:
            rooms.set_pods(name, [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == name])
        rooms.namespaces = {"x": {}, "y": {}}
        return Placer(rooms, [pod for pod in self.waiting.values() if nominated_node(pod)])

    def change(self) -> None:
        """Change a node, or let a pod end or go."""
        name = self.random.choice(sorted(self.nodes))
        match self.random.randrange(4):
            case 0:
                self.nodes[name] = _node(self.random, name)
            case 1 | 2 if self.pods:
                key = self.random.choice(sorted(self.pods))
                if self.random.random() < 0.5:
                    del self.pods[key]
                else:
                    self.pods[key] = {**self.pods[key], "status": {"phase": "Succeeded"}}


@pytest.mark.parametrize("seed", range(10))
def test_a_memory_of_decisions_changes_none(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    fleet = Fleet(random)
    for round_ in range(12):
        for _ in range(random.randint(0, 3)):
            fleet.change()
        placer, has_placed = fleet.placer(fleet.kept), False
        kinds = [_pod(random, "") for _ in range(3)]
        new = [_named(random.choice(kinds), f"p{round_}-{number}") for number in range(random.randint(3, 8))]
        for pod in (*[each for each in fleet.waiting.values() if random.random() < 0.7], *new):
            key = key_of(pod)
            placement = placer.place(pod)
            other = fleet.placer(NodeRooms())
            assert placement.node == other.place(pod).node
            if placement.node:
                has_placed = True
                fleet.waiting.pop(key, None)
                fleet.pods[key] = _bound(pod, placement.node)
                continue
            found, wanted = placer.preemption(pod, list), fleet.placer(NodeRooms()).preemption(pod, list)
            assert _words(found) == _words(wanted) or (found is None and has_placed), "no pod of this look makes room"
            fleet.waiting[key] = with_nominated_node(pod, found.node if found else "")
            if found and found.victims and random.random() < 0.5:
                break  # the victims have gone until the next look
        for key in [key for key, pod in fleet.pods.items() if random.random() < 0.2]:
            del fleet.pods[key]
