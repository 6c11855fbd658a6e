"""The controllers of Services: their EndpointSlices and Endpoints, and slices that mirror hand-made Endpoints
(KCM 1.32, `pkg/controller/endpointslice`, `endpoint` and `endpointslicemirroring`).
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from modules.apimachinery.endpoint_addresses import SERVICE_NAME
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted
from modules.apimachinery.pods.objects import node_of
from modules.cloud.applications import BELONGING_TO, RANGE_NODE_GROUP, TOPOLOGY
from modules.cloud.controllers.endpoint_slices import (
    CONTROLLER,
    MANAGED_BY,
    Group,
    SliceOwner,
    slice_writes,
)
from modules.cloud.controllers.plan import NOTHING, PlannedWrite, ReconcilePlan, create, delete, update
from modules.cloud.controllers.service_pods import Backend, Ports, backends, endpoint_of, is_headless
from modules.cloud.controllers.view import View

HEADLESS: Final = "service.kubernetes.io/headless"
_MIRRORED_BY: Final = "endpointslicemirroring-controller.k8s.io"
_SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_MIRRORED: Final = (
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
)
"""Annotations of Endpoints that the slices that mirror them do not have."""
_ENDPOINTS_BY: Final = "endpoints.kubernetes.io/managed-by"
_ENDPOINT_CONTROLLER: Final = "endpoint-controller"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_MOST_ADDRESSES: Final = 1000
"""Addresses in Endpoints, and addresses of a subset that are mirrored."""
_RESERVED: Final = (SERVICE_NAME, MANAGED_BY, HEADLESS, BELONGING_TO)


def reconcile(view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
    """Return the plan for the EndpointSlices and Endpoints of a Service."""
    service = view.find(key)
    endpoints = view.find(ObjectKey("Endpoints", key.namespace, key.name))
    mirrors = [] if endpoints is None else _mirrors(view, endpoints)
    if service is None:  # those that a person has made in advance for a Service are not mirrored yet
        is_left = endpoints is not None and (_is_own(endpoints) or mirrors)
        return ReconcilePlan((delete(endpoints),)) if endpoints and is_left else NOTHING
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName" or is_being_deleted(service):
        return NOTHING
    if not spec.get("selector"):
        return ReconcilePlan(_mirrored(view, service, endpoints))
    found = backends(view, service)
    families = tuple(spec.get("ipFamilies") or ("IPv4",))
    owner = SliceOwner(service, _labels(service))
    slices = slice_writes(owner, view.owned_by(service, "EndpointSlice"), _groups(found, service, families), families)
    lost = [each for each in view.without_controller("EndpointSlice", key.namespace) if _was_of(service, each)]
    return ReconcilePlan(
        (*slices, *map(delete, (*lost, *mirrors)), *_endpoints(service, endpoints, found, families[0]))
    )


def _was_of(service: JsonObject, each: JsonObject) -> bool:
    """Return whether a slice without an owner has a Service's labels: nodes would go on to use its endpoints."""
    labels = each["metadata"].get("labels") or {}
    return (labels.get(SERVICE_NAME), labels.get(MANAGED_BY)) == (service["metadata"]["name"], CONTROLLER)


def _labels(service: JsonObject) -> dict[str, str]:
    given = service["metadata"].get("labels") or {}
    return {
        **{key: value for key, value in given.items() if key not in _RESERVED},
        SERVICE_NAME: service["metadata"]["name"],
        MANAGED_BY: CONTROLLER,
        **({HEADLESS: ""} if is_headless(service) else {}),
    }


def _groups(found: Sequence[Backend], service: JsonObject, families: Sequence[str]) -> dict[Group, list[JsonObject]]:
    annotations = service["metadata"].get("annotations") or {}
    by_group = annotations.get(TOPOLOGY) == RANGE_NODE_GROUP
    groups: dict[Group, list[JsonObject]] = {}
    for one in found:
        for family in families:
            if one.addresses_of(family):
                group = family, one.ports, one.node_group if by_group else ""
                groups.setdefault(group, []).append(endpoint_of(one, service, family))
    return groups


def _is_own(endpoints: JsonObject) -> bool:
    """Return whether a controller has made Endpoints, and not a person, or a client for its election."""
    return (endpoints["metadata"].get("labels") or {}).get(_ENDPOINTS_BY) == _ENDPOINT_CONTROLLER


def _endpoints(
    service: JsonObject, live: JsonObject | None, found: Sequence[Backend], family: str
) -> tuple[PlannedWrite, ...]:
    """Return the write of a Service's Endpoints, for clients that read no slices; nothing if they are right."""
    publishes = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    counted = [one for one in found if one.addresses_of(family) and (publishes or not one.is_terminating)]
    shown = sorted(counted, key=lambda one: not one.is_ready)[:_MOST_ADDRESSES]
    subsets = _subsets(service, sorted(shown, key=lambda one: ip_address(one.addresses_of(family)[0]).packed), family)
    metadata = service["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        _ENDPOINTS_BY: _ENDPOINT_CONTROLLER,
        **({HEADLESS: ""} if is_headless(service) else {}),
    }
    before = live["metadata"] if live is not None else {"name": metadata["name"], "namespace": metadata["namespace"]}
    annotations = {name: value for name, value in (before.get("annotations") or {}).items() if name != _OVER_CAPACITY}
    if len(counted) > _MOST_ADDRESSES:
        annotations[_OVER_CAPACITY] = "truncated"
    state = subsets, labels, annotations
    if live is not None and state == (live.get("subsets") or [], before.get("labels"), before.get("annotations") or {}):
        return ()
    others = {name: value for name, value in before.items() if name != "annotations"}
    wanted = {
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {**others, "labels": labels, **({"annotations": annotations} if annotations else {})},
        **({"subsets": subsets} if subsets else {}),
    }
    return (create(wanted) if live is None else update(wanted),)


def _subsets(service: JsonObject, found: Sequence[Backend], family: str) -> list[JsonObject]:
    by_ports: dict[Ports, JsonObject] = {}
    has_ports = bool((service.get("spec") or {}).get("ports"))
    for one in found:
        if not one.ports and has_ports:
            continue  # none of the named ports is one of this pod's
        subset = by_ports.setdefault(tuple(sorted(one.ports)), {"addresses": [], "notReadyAddresses": [], "ports": []})
        node, hostname = node_of(one.pod), one.hostname_in(service)
        subset["addresses" if one.is_ready else "notReadyAddresses"].append(
            {
                "ip": one.addresses_of(family)[0],
                **({"hostname": hostname} if hostname else {}),
                **({"nodeName": node} if node else {}),
                "targetRef": one.reference,
            }
        )
    for ports, subset in by_ports.items():
        subset["ports"] = [_endpoints_port(*port) for port in ports]
    return [{name: value for name, value in by_ports[key].items() if value} for key in sorted(by_ports)]


def _endpoints_port(name: str, number: int, protocol: str, application: str) -> JsonObject:
    named = {"name": name} if name else {}
    return {**named, "port": number, "protocol": protocol, **({"appProtocol": application} if application else {})}


def _mirrored(view: View, service: JsonObject, endpoints: JsonObject | None) -> tuple[PlannedWrite, ...]:
    """Return the writes of slices that mirror Endpoints that somebody has made for a Service without a selector."""
    if endpoints is None or is_being_deleted(endpoints):
        return ()  # the garbage collector deletes the slices
    metadata = endpoints["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    existing = view.owned_by(endpoints, "EndpointSlice")
    if labels.get(_SKIP_MIRROR) == "true" or _LEADER in annotations:
        return tuple(map(delete, existing))
    groups: dict[Group, list[JsonObject]] = {}
    for subset in endpoints.get("subsets") or ():
        _mirror(subset, groups)
    given = {name: value for name, value in labels.items() if name != BELONGING_TO}
    named = {SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: _MIRRORED_BY}
    copied = {name: value for name, value in annotations.items() if name not in _NOT_MIRRORED}
    owner = SliceOwner(endpoints, {**given, **named}, copied)
    return slice_writes(owner, existing, groups, ())


def _mirrors(view: View, endpoints: JsonObject) -> list[JsonObject]:
    """Return the slices that mirror Endpoints, and so were made for a Service without a selector."""
    owned = view.owned_by(endpoints, "EndpointSlice")
    return [each for each in owned if (each["metadata"].get("labels") or {}).get(MANAGED_BY) == _MIRRORED_BY]


def _mirror(subset: JsonObject, groups: dict[Group, list[JsonObject]]) -> None:
    """Add the addresses of a subset to the groups of endpoints; one that is there twice is added once, and is ready if
    both are.
    """
    ports = tuple(
        (
            str(port.get("name") or ""),
            int(port.get("port") or 0),
            str(port.get("protocol") or "TCP"),
            str(port.get("appProtocol") or ""),
        )
        for port in subset.get("ports") or ()
    )
    both = [(one, True) for one in subset.get("addresses") or ()]
    both += [(one, False) for one in subset.get("notReadyAddresses") or ()]
    found: dict[tuple[object, object], tuple[JsonObject, bool]] = {}
    for address, is_ready in both[:_MOST_ADDRESSES]:
        identity = address.get("ip"), (address.get("targetRef") or {}).get("uid")
        first, was_ready = found.get(identity, (address, True))
        found[identity] = first, was_ready and is_ready
    for address, is_ready in found.values():
        family = "IPv6" if ":" in str(address.get("ip")) else "IPv4"
        kept = {name: address[name] for name in ("hostname", "targetRef", "nodeName") if address.get(name)}
        endpoint = {"addresses": [address.get("ip")], "conditions": {"ready": is_ready}, **kept}
        groups.setdefault((family, ports, ""), []).append(endpoint)
