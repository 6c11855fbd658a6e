"""Services of KubeEdge's clouds reach the data plane, from the frames on the wire on (case 26)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beehive.codec import decode
from beehive.testing import Harness
from metamanager.module import MetaManager, MetaSettings
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.module import EdgeMesh, MeshSettings
from tests.metamanager.support import META, connect
from tests.modules.edge.edgemesh.doubles import Plane
from tests.modules.edge.edgemesh.objects import NODE
from tests.modules.edge.edgemesh.test_module import Pods

Sent = tuple[str, str, str, Any]
"""Source, operation, resource and content of a message."""


def _metadata(name: str, version: int) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2027-01-15T08:00:00Z",
    }


def _service(version: int = 1) -> dict[str, Any]:
    ports = [{"name": "http-0", "protocol": "TCP", "port": 80, "targetPort": 8080}]
    spec = {"ports": ports, "selector": {"app": "web"}, "clusterIP": "10.96.0.1", "type": "ClusterIP"}
    return {"metadata": _metadata("web", version), "spec": spec, "status": {"loadBalancer": {}}}


def _pod(address: str) -> dict[str, Any]:
    ports = [{"name": "http-0", "hostPort": 18080, "containerPort": 8080, "protocol": "TCP"}]
    return {
        "metadata": {**_metadata("web-1", 2), "labels": {"app": "web"}},
        "spec": {"nodeName": "n2", "containers": [{"name": "main", "image": "app", "ports": ports}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "hostIP": address,
            "podIP": "172.17.0.2",
        },
    }


def _slice(address: str, version: int = 3) -> dict[str, Any]:
    labels = {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {**_metadata("web-x2vnd", version), "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "nodeName": "n2"}],
        "ports": [{"name": "http-0", "protocol": "TCP", "port": 8080}],
    }


OF_2019: tuple[Sent, ...] = (
    ("edgecontroller", "update", "namespace/servicelist/service", [_service()]),
    ("edgecontroller", "update", "default/podlist/web", [_pod("192.0.2.2")]),
    ("edgecontroller", "update", "namespace/endpointslist/endpoints", []),
)
"""What the cloud of 2019 sends when a node becomes ready (`da92692b`, downstream and upstream controllers)."""
OF_TODAY: tuple[Sent, ...] = (
    ("dynamiccontroller", "insert", "default/service/web", {"kind": "Service", "apiVersion": "v1", **_service()}),
    ("dynamiccontroller", "insert", "default/endpointslice/web-x2vnd", _slice("192.0.2.2")),
)
"""The events of today's watches (dynamiccontroller)."""


@contextmanager
def node(path: Path) -> Iterator[tuple[Harness, Plane]]:
    """metamanager with a file, and edgemesh."""
    with Harness() as bee:
        plane = Plane()
        settings = MeshSettings(NODE, own_ranges=("10.86.0.0/16",))
        bee.add(MetaManager, MetaSettings(str(path), report_events=False, node=""))
        bee.start(EdgeMesh, settings, Pods(), [plane], MeshCounters())
        connect(bee)
        yield bee, plane


def arrive(bee: Harness, sent: Sent) -> None:
    """A frame of the cloud arrives, as Go writes it."""
    source, operation, resource, content = sent
    route = {"source": source, "group": "resource", "operation": operation, "resource": resource}
    header = {"msg_id": bee.clock.new_id(), "timestamp": int(bee.clock.now() * 1000)}
    frame = json.dumps({"header": header, "route": route, "content": content}).encode()
    bee.send(META, decode(frame), wait=1)


@pytest.mark.parametrize(
    ("cloud", "change"),
    [
        (OF_2019, ("edgecontroller", "update", "default/podlist/web", [_pod("192.0.2.3")])),
        (OF_TODAY, ("dynamiccontroller", "update", "default/endpointslice/web-x2vnd", _slice("192.0.2.3", 4))),
    ],
    ids=["2019", "today"],
)
def test_services_of_a_cloud_arrive_and_are_there_after_a_restart_without_it(
    tmp_path: Path, cloud: tuple[Sent, ...], change: Sent
) -> None:
    path = tmp_path / "edgecore.db"
    with node(path) as (bee, plane):
        for sent in cloud:
            arrive(bee, sent)
        assert plane.tables[-1] == {"web": ["192.0.2.2"], "pods": []}
        arrive(bee, change)
        assert plane.tables[-1] == {"web": ["192.0.2.3"], "pods": []}
    with node(path) as (bee, plane):
        bee.run_for(1)
        assert plane.tables[-1] == {"web": ["192.0.2.3"], "pods": []}


def test_a_service_that_the_cloud_deletes_is_gone(tmp_path: Path) -> None:
    """In today's form an event; the cloud of 2019 sends a change of one Service so, too."""
    with node(tmp_path / "edgecore.db") as (bee, plane):
        for sent in OF_2019:
            arrive(bee, sent)
        arrive(bee, ("edgecontroller", "delete", "default/service/web", _service(5)))
        assert plane.tables[-1] == {"pods": []}
