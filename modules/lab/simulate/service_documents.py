"""Services whose endpoints nodes follow, and what people change of them and of the node groups."""

import random
from collections.abc import Mapping
from typing import Final

from beehive.clock import Clock
from beehive.message import Message
from modules.apimachinery.application import FOLLOW, FOLLOW_RESOURCE, Target
from modules.apimachinery.endpoint_addresses import SERVICE_NAME
from modules.apimachinery.kinds import JsonObject
from modules.cloud.applications import NODE_GROUP, RANGE_NODE_GROUP, TOPOLOGY
from modules.lab.simulate.plan import ServiceStep, Write, Writer

_BETWEEN: Final = (4.0, 15.0, 60.0)
"""Average seconds between two changes; one value is drawn for each run."""
_GOES: Final = 0.2
"""Share of changes that delete objects of a Service."""
_LOST: Final = (("Service",), ("Service",), ("EndpointSlice", "Endpoints"), ("Service", "EndpointSlice", "Endpoints"))
"""Which of them are deleted."""
_GROUPS: Final = 2
"""Number of node groups."""
_FOLLOWED: Final = (
    Target("", "v1", "services"),
    Target("discovery.k8s.io", "v1", "endpointslices"),
    Target("", "v1", "endpoints"),
)


def service_steps(
    draw: random.Random, name: str, nodes: int, seconds: float, *, may_go: bool = False
) -> list[ServiceStep]:
    """Draw changes of a Service: its endpoints, also on a node that does not exist, whether it keeps to node groups,
    and with `may_go` deletions.
    """
    steps = [ServiceStep(round(draw.uniform(0, 10.0), 3), (0,), is_ranged=True, name=name)]
    at, rate = steps[0].at, 1 / draw.choice(_BETWEEN)
    while (at := at + draw.expovariate(rate)) < seconds:
        on = tuple(number for number in range(nodes + 1) if draw.random() < 0.6)
        is_ranged = steps[-1].is_ranged if draw.random() < 0.6 else not steps[-1].is_ranged
        on = on if draw.random() < 0.5 else steps[-1].on
        without = draw.choice(_LOST) if may_go and draw.random() < _GOES else ()
        steps.append(ServiceStep(round(at, 3), on, is_ranged=is_ranged, name=name, without=without))
    return steps


def group_writes(draw: random.Random, nodes: int, seconds: float) -> list[Write]:
    """Draw moves of nodes between node groups."""
    writes: list[Write] = []
    at, rate = 0.0, 1 / draw.choice(_BETWEEN)
    while (at := at + draw.expovariate(rate)) < seconds:
        node, group = f"node-{draw.randrange(nodes)}", draw.randrange(_GROUPS + 1)
        writes.append(Write(round(at, 3), node, Writer.NODE_GROUP, group))
    return writes


def group_name(number: int) -> str:
    """Return the name of a node group."""
    return f"group-{number}"


def group_documents(groups: Mapping[str, int]) -> list[JsonObject]:
    """Return the NodeGroups that have nodes; a node of the group 0 is in none."""
    return [
        {
            "kind": NODE_GROUP.name,
            "apiVersion": NODE_GROUP.api_version,
            "metadata": {"name": group_name(number)},
            "spec": {"nodes": sorted(node for node, its in groups.items() if its == number)},
        }
        for number in range(1, _GROUPS + 1)
    ]


def documents(step: ServiceStep) -> list[JsonObject]:
    """Return the Service after a step, with its endpoints in both forms."""
    metadata: JsonObject = {"name": step.name, "namespace": "default"}
    ports = [{"name": "http", "port": 80}]
    annotations = {TOPOLOGY: RANGE_NODE_GROUP} if step.is_ranged else {}
    on = [(f"10.1.0.{number + 1}", f"node-{number}") for number in step.on]
    slice_of = {"name": f"{step.name}-1", "namespace": "default", "labels": {SERVICE_NAME: step.name}}
    subsets = [{"addresses": [{"ip": ip, "nodeName": node} for ip, node in on], "ports": ports}] if on else []
    return [
        {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": slice_of,
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ip], "nodeName": node} for ip, node in on],
            "ports": ports,
        },
        {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata, "subsets": subsets},
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {**metadata, "annotations": annotations},
            "spec": {"ports": ports},
        },
    ]


def follow_messages(clock: Clock) -> list[Message]:
    """Return the messages of a node's module that follows Services and their endpoints, as edgemesh does."""
    return [
        Message.new(clock, source="edgemesh", resource=FOLLOW_RESOURCE, operation=FOLLOW, content=target)
        for target in _FOLLOWED
    ]
