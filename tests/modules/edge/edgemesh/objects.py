"""Services, slices and pods of the tests."""

from typing import Any

import msgspec

from modules.apimachinery.types import Pod, decode
from modules.edge.edgemesh.objects import Endpoints, EndpointSlice, Service
from modules.edge.edgemesh.tables import Address, PortTable, target_to
from tests.support.ports import free_port

NODE = "n1"


def service(name: str = "web", ip: str = "10.96.0.1", **spec: Any) -> Service:
    """A Service of the namespace default, with the port 80 for the pods' 8080 and a selector."""
    annotations, labels = spec.pop("annotations", {}), spec.pop("labels", {})
    given = {
        "clusterIP": ip,
        "clusterIPs": [ip] if ip not in ("", "None") else [],
        "ports": [{"port": 80, "targetPort": 8080}],
        "selector": {"app": name},
        **spec,
    }
    metadata = {"name": name, "namespace": "default", "annotations": annotations, "labels": labels}
    return decode(Service, msgspec.json.encode({"metadata": metadata, "spec": given}))


def endpoint(address: str, node: str = "n2", **more: Any) -> dict[str, Any]:
    """An endpoint of a slice, ready."""
    ready = more.pop("ready", True)
    conditions = {"ready": ready, **more.pop("conditions", {})}
    return {"addresses": [address], "nodeName": node, "conditions": conditions, **more}


def slice_of(
    *endpoints: dict[str, Any], name: str = "web", ports: Any = ({"name": "", "port": 8080},), group: str = ""
) -> EndpointSlice:
    """A slice of a Service; a name `web.2` is the second one of web."""
    labels = {"kubernetes.io/service-name": name.partition(".")[0]}
    if group:
        labels["apps.kubeedge.io/belonging-to"] = group
    value = {
        "metadata": {"name": f"{name}-x", "namespace": "default", "labels": labels},
        "addressType": "IPv6" if any(":" in each["addresses"][0] for each in endpoints) else "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }
    return decode(EndpointSlice, msgspec.json.encode(value))


def endpoints_of(*addresses: str, name: str = "web", node: str = "n2") -> Endpoints:
    """Endpoints with ready addresses."""
    subset = {"addresses": [{"ip": each, "nodeName": node} for each in addresses], "ports": [{"port": 8080}]}
    return decode(Endpoints, msgspec.json.encode({"metadata": _named(name), "subsets": [subset]}))


def pod(name: str = "web-1", ip: str = "10.86.0.2", *, ready: bool = True, node: str = NODE, **more: Any) -> Pod:
    """A pod of this node, which the Service `web` selects."""
    labels, deleted = more.pop("labels", {"app": "web"}), more.pop("deleted", False)
    ports, status = more.pop("ports", [{"containerPort": 8080}]), more.pop("status", {})
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    value = {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "c", "ports": ports}], **more},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "podIP": ip,
            "podIPs": [{"ip": ip}] if ip else [],
            **status,
        },
    }
    return decode(Pod, msgspec.json.encode(value))


def port_table(*endpoints: Address, protocol: str = "tcp", port: int = 0) -> PortTable:
    """A port of the Service `web`."""
    target = target_to(endpoints)
    return PortTable(
        namespace="default", service="web", name="", protocol=protocol, port=port or free_port(), is_ipv6=False,
        addresses=("10.96.0.1",), external=(), node_port=0, affinity=0, inside=target, outside=target,
        keeps_source=False, serving=frozenset(endpoints),
    )  # fmt: skip


def _named(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default"}
