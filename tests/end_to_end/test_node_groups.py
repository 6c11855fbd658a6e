"""A node's API has the endpoints of its node group only."""

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.applications import BELONGING_TO, RANGE_NODE_GROUP, TOPOLOGY
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.processes import wait_until
from tests.support.kubectl import Kubectl
from tests.support.ports import free_port

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
OTHER = "office-1"


def in_group(name: str, group: str) -> JsonObject:
    """A node with the label by which a NodeGroup marks its nodes."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {BELONGING_TO: group}}}


def shop() -> list[JsonObject]:
    """A Service that keeps to node groups, with an endpoint on each node, as another controller writes them."""
    metadata = {"name": "shop", "annotations": {TOPOLOGY: RANGE_NODE_GROUP}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    endpoints = [
        {"addresses": ["192.0.2.1"], "nodeName": NODE}, {"addresses": ["192.0.2.2"], "nodeName": OTHER},
    ]  # fmt: skip
    labels = {"kubernetes.io/service-name": "shop", "endpointslice.kubernetes.io/managed-by": "somebody"}
    made = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "shop-1", "labels": labels},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "port": 80}],
    }  # fmt: skip
    return [service, made]


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_a_node_has_the_endpoints_of_its_group(stopped_machine: Machine) -> None:
    """It gets the others' when it goes to their group, and has them without the cloud."""
    machine = stopped_machine
    machine.edge.api_port = free_port()
    machine.start()
    machine.cloud.apply(in_group(NODE, "plant"), in_group(OTHER, "office"))
    machine.cloud.apply(*shop())
    kubectl = Kubectl(machine.edge.api_port)

    def addresses() -> list[str]:
        slices = kubectl.ask(SLICES).body["items"]
        return [each["addresses"][0] for one in slices for each in one.get("endpoints") or []]

    wait_until(lambda: addresses() == ["192.0.2.1"], "the node has the endpoint of its group")
    machine.cloud.apply(in_group(NODE, "office"))
    wait_until(lambda: addresses() == ["192.0.2.1", "192.0.2.2"], "it has those of its next group")
    machine.cloud.kill()
    assert addresses() == ["192.0.2.1", "192.0.2.2"]
