"""The pods behind a Service: their addresses, ports and conditions, in the forms of EndpointSlices and Endpoints."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.endpoint_addresses import endpoint_address
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, uid_of
from modules.apimachinery.pods.objects import has_ended, node_of
from modules.cloud.applications import BELONGING_TO
from modules.cloud.authorization.node_metadata import ZONE
from modules.cloud.controllers.view import View

_address: Final = lru_cache(1024)(endpoint_address)
"""A pod may be behind many Services, and is looked at for each of them with each of its changes."""
_PREFER_ZONE: Final = ("PreferClose", "PreferSameZone")

Ports = tuple[tuple[str, int, str, str], ...]
"""Name, number, protocol and application protocol of each port; the last one may be "". """


class Backend(NamedTuple):
    """A pod behind a Service."""

    pod: JsonObject
    addresses: tuple[str, ...]
    """All addresses of the pod."""
    ports: Ports
    """The Service's ports as numbers of this pod, without those whose name the pod does not have."""
    is_serving: bool
    is_ready: bool
    """Whether it may get connections; also when it is not, if the Service publishes such addresses."""
    zone: str
    node_group: str

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return is_being_deleted(self.pod)

    def addresses_of(self, family: str) -> list[str]:
        """Return the addresses of a family, `IPv4` or `IPv6`."""
        return [address for address in self.addresses if (":" in address) == (family == "IPv6")]

    def hostname_in(self, service: JsonObject) -> str:
        """Return the name that the pod has in the domain of a Service, or ""."""
        spec = self.pod.get("spec") or {}
        is_member = spec.get("subdomain") == service["metadata"]["name"]
        return str(spec.get("hostname") or "") if is_member else ""

    @property
    def reference(self) -> JsonObject:
        """The reference to the pod."""
        metadata = self.pod["metadata"]
        return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": uid_of(self.pod)}


def selects(service: JsonObject, labels: object) -> bool:
    """Return whether a Service's selector matches labels; one without a selector matches nothing."""
    selector = (service.get("spec") or {}).get("selector")
    return (
        isinstance(selector, dict)
        and isinstance(labels, dict)
        and 0 < len(selector) <= len(labels)
        and (selector.items() <= labels.items())
    )


def is_headless(service: JsonObject) -> bool:
    """Return whether a Service has no address of its own."""
    return ((service.get("spec") or {}).get("clusterIP") or "None") == "None"


def backends(view: View, service: JsonObject) -> list[Backend]:
    """Return the pods that a Service selects and that have addresses and not ended, by name."""
    selector = (service.get("spec") or {}).get("selector")
    found = view.pods_with(service["metadata"]["namespace"], selector) if selector else ()
    made = (_backend(view, service, pod) for pod in found if not has_ended(pod))
    return [one for one in made if one is not None]


def _backend(view: View, service: JsonObject, pod: JsonObject) -> Backend | None:
    """Return a pod as it serves; None if it has no address, or its Node is gone."""
    addresses = tuple(_addresses(pod))
    publishes = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    node = view.find(ObjectKey("Node", "", node_of(pod)))
    if not addresses or (node is None and not publishes):
        return None
    serving = is_ready(pod)
    labels = {} if node is None else view.labels.of(node)
    zone, group = str(labels.get(ZONE) or ""), str(labels.get(BELONGING_TO) or "")
    ready = publishes or (serving and not is_being_deleted(pod))
    return Backend(pod, addresses, _ports(service, pod), serving, ready, zone, group)


def _addresses(pod: JsonObject) -> Iterator[str]:
    status = pod.get("status") or {}
    given = status.get("podIPs") or ([{"ip": status["podIP"]}] if status.get("podIP") else ())
    yield from (address for each in given if (address := _address(str(each.get("ip")))))


def _ports(service: JsonObject, pod: JsonObject) -> Ports:
    found = []
    for port in (service.get("spec") or {}).get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        number = _number(port.get("targetPort") or port.get("port"), protocol, pod)
        if number is not None:
            found.append((str(port.get("name") or ""), number, protocol, str(port.get("appProtocol") or "")))
    return tuple(found)


def _number(target: object, protocol: str, pod: JsonObject) -> int | None:
    """Return the number of a port that is given by number or by name; sidecars have ports, other init containers none
    (`FindPort`).
    """
    if isinstance(target, int):
        return target
    spec = pod.get("spec") or {}
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name") == target and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


def endpoint_of(one: Backend, service: JsonObject, family: str) -> JsonObject:
    """Return the endpoint of a pod in an EndpointSlice."""
    spec, node, hostname = service.get("spec") or {}, node_of(one.pod), one.hostname_in(service)
    prefers_zone = spec.get("trafficDistribution") in _PREFER_ZONE and one.is_ready and one.zone
    return {
        "addresses": one.addresses_of(family),
        "conditions": {"ready": one.is_ready, "serving": one.is_serving, "terminating": one.is_terminating},
        **({"hostname": hostname} if hostname else {}),
        "targetRef": one.reference,
        **({"nodeName": node} if node else {}),
        **({"zone": one.zone} if one.zone else {}),
        **({"hints": {"forZones": [{"name": one.zone}]}} if prefers_zone else {}),
    }
