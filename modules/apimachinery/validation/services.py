"""The rules of Services, Endpoints and EndpointSlices."""

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any, Final

from modules.apimachinery.ip_addresses import read_address
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, duplicate, forbidden, invalid, required, too_many
from modules.apimachinery.validation.containers import PROTOCOLS
from modules.apimachinery.validation.labels import label_key, labels
from modules.apimachinery.validation.names import (
    faults_of_label,
    faults_of_label_value,
    faults_of_port_name,
    faults_of_subdomain,
)
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    address,
    anything,
    between,
    named,
    needed,
    network,
    one_of,
    or_zero,
    pointer,
    port_number,
    port_or_name,
    unique,
)

_NONE: Final = "None"
_LONGEST_AFFINITY: Final = 86400
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20000
_MOST_ZONES: Final = 8
_PROTOCOL: Final = or_zero(one_of(*PROTOCOLS), "TCP")
_label = named(faults_of_label)
_subdomain = named(faults_of_subdomain)
_EXTERNAL: Final = ("NodePort", "LoadBalancer")
_KUBELET_PORT: Final = 10250
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_MODE: Final = "service.kubernetes.io/topology-mode"
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def _no_special_address(value: Any, path: str, found: Causes) -> None:
    """Check an address that other machines can reach (ValidateNonSpecialIP)."""
    try:
        ip = read_address(value)
    except ValueError:
        found.append(invalid(path, value, "must be a valid IP address"))
        return
    ip = getattr(ip, "ipv4_mapped", None) or ip
    for is_special, why in (
        (ip.is_unspecified, f"may not be unspecified ({value})"),
        (ip.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (ip.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ):
        if is_special:
            found.append(invalid(path, value, why))


def _endpoint_address(value: Any, path: str, found: Causes) -> None:
    """Check the address of an endpoint: both rules report a text that is no address."""
    address(value, path, found)
    _no_special_address(value, path, found)


def _external_address(value: Any, path: str, found: Causes) -> None:
    before = len(found)
    address(value, path, found)
    if len(found) == before:
        _no_special_address(value, path, found)


def _source_range(value: str, path: str, found: Causes) -> None:
    """Check a network, which may have spaces around it, as the older annotation's may."""
    network(value.strip(), path, found)


_PORT: Final = Fields(
    {
        "port": or_zero(port_number),
        "protocol": _PROTOCOL,
        "targetPort": or_zero(port_or_name),
        "appProtocol": pointer(label_key),
    }
)


def _ports(value: Any, path: str, found: Causes) -> None:
    names = set[str]()
    for index, port in enumerate(value):
        where, name = f"{path}[{index}]", str(port.get("name") or "")
        if name:
            _label(name, f"{where}.name", found)
        elif len(value) > 1:
            found.append(required(f"{where}.name"))
        if name and name in names:
            found.append(duplicate(f"{where}.name", name))
        names.add(name)
        _PORT(port, where, found)
    seen, on_nodes = set[tuple[str, int]](), set[tuple[str, int]]()
    for index, port in enumerate(value):
        protocol = port.get("protocol") or "TCP"
        key = (protocol, port.get("port") or 0)
        if key in seen:
            found.append(duplicate(f"{path}[{index}]", {"port": key[1], "protocol": protocol}))
        seen.add(key)
        if number := port.get("nodePort"):
            if (protocol, number) in on_nodes:
                found.append(duplicate(f"{path}[{index}].nodePort", number))
            on_nodes.add((protocol, number))


def _type(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the fields that belong to a Service's type."""
    kind, addresses = spec.get("type") or "ClusterIP", spec.get("clusterIPs") or ()
    is_headless = list(addresses) == [_NONE]
    if not spec.get("ports") and not is_headless and kind != "ExternalName":
        found.append(required(f"{path}.ports"))
    if kind in _EXTERNAL and is_headless:
        found.append(invalid(f"{path}.clusterIPs[0]", _NONE, f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                found.append(forbidden(f"{path}.{field}", "may not be set for ExternalName services"))
        if name := (spec.get("externalName") or "").removesuffix("."):
            _subdomain(name, f"{path}.externalName", found)
        else:
            found.append(required(f"{path}.externalName"))
    for index, port in enumerate(spec.get("ports") or ()):
        if kind == "ClusterIP" and port.get("nodePort"):
            found.append(forbidden(f"{path}.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'"))


def _balanced(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check what belongs to load balancers."""
    if spec.get("type") != "LoadBalancer":
        for field in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) is not None:
                where = "LoadBalancerSourceRanges" if field == "loadBalancerSourceRanges" else field
                found.append(forbidden(f"{path}.{where}", "may only be used when `type` is 'LoadBalancer'"))
        return
    for index, port in enumerate(spec.get("ports") or ()):
        if port.get("port") == _KUBELET_PORT:
            why = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
            found.append(invalid(f"{path}.ports[{index}]", _KUBELET_PORT, why))
    if spec.get("loadBalancerClass") is not None:
        label_key(spec["loadBalancerClass"], f"{path}.loadBalancerClass", found)


def _affinity(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    config, where = spec.get("sessionAffinityConfig"), f"{path}.sessionAffinityConfig"
    if spec.get("sessionAffinity") == "ClientIP":
        why = "when session affinity type is ClientIP"
        client = (config or {}).get("clientIP")
        if config is None or client is None or client.get("timeoutSeconds") is None:
            end = "" if config is None else ".clientIP" if client is None else ".clientIP.timeoutSeconds"
            found.append(required(where + end, why))
        else:
            rule = between(1, _LONGEST_AFFINITY, f"must be greater than 0 and less than {_LONGEST_AFFINITY}")
            rule(client["timeoutSeconds"], f"{where}.clientIP.timeoutSeconds", found)
    elif config is not None and spec.get("sessionAffinity") == "None":
        found.append(forbidden(where, "must not be set when session affinity is None"))


def _cluster_addresses(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    first, addresses, where = spec.get("clusterIP") or "", spec.get("clusterIPs") or [], f"{path}.clusterIPs"
    if first and addresses and addresses[0] != first:
        found.append(invalid(where, addresses, "first value must match `clusterIP`"))
    elif addresses and not first:
        found.append(invalid(where, addresses, "must be empty when `clusterIP` is not specified"))
    for index, each in enumerate(addresses):
        if each == _NONE and index == 0:
            if len(addresses) > 1:
                found.append(invalid(where, addresses, "'None' must be the first and only value"))
        else:
            address(each, f"{where}[{index}]", found)


def _traffic(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    policy, kind = spec.get("externalTrafficPolicy"), spec.get("type")
    is_external = kind in _EXTERNAL or (kind != "ExternalName" and spec.get("externalIPs"))
    if policy and not is_external:
        why = "may only be set for externally-accessible services"
        found.append(invalid(f"{path}.externalTrafficPolicy", policy, why))
    elif policy:
        one_of("Cluster", "Local")(policy, f"{path}.externalTrafficPolicy", found)
    if (number := spec.get("healthCheckNodePort")) and not (spec.get("type") == "LoadBalancer" and policy == "Local"):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(invalid(f"{path}.healthCheckNodePort", number, why))
    elif number:
        port_number(number, f"{path}.healthCheckNodePort", found)


def _annotations(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the annotations that stand for fields of a Service."""
    given, where = obj["metadata"].get("annotations") or {}, f"{path}.metadata.annotations"
    spec, mode = obj.get("spec") or {}, given.get(_MODE)
    if mode is not None and given.get(_HINTS, mode) != mode:
        found.append(invalid(f"{where}[{_MODE}]", mode, f"must match annotations[{_HINTS}] when both are specified"))
    if (ranges := given.get(_RANGES)) is None or spec.get("loadBalancerSourceRanges"):
        return
    if spec.get("type") != "LoadBalancer":
        found.append(forbidden(f"{where}[{_RANGES}]", "may only be used when `type` is 'LoadBalancer'"))
        return
    for each in ranges.split(",") if ranges.strip() else ():
        _source_range(each, f"{where}[{_RANGES}]", found)


service = Fields(
    {
        "spec": or_zero(
            Fields(
                {
                    "ports": _ports,
                    "selector": labels,
                    "sessionAffinity": or_zero(one_of("ClientIP", "None"), "None"),
                    "externalIPs": Each(_external_address),
                    "type": or_zero(one_of(*_TYPES), "ClusterIP"),
                    "loadBalancerSourceRanges": Each(_source_range),
                    "ipFamilies": Each(one_of("IPv4", "IPv6")),
                    "ipFamilyPolicy": pointer(one_of("PreferDualStack", "RequireDualStack", "SingleStack")),
                    "internalTrafficPolicy": pointer(one_of("Cluster", "Local")),
                    "trafficDistribution": pointer(one_of("PreferClose")),
                },
                _type,
                _balanced,
                _affinity,
                _cluster_addresses,
                _traffic,
            ),
            {},
        )
    },
    _annotations,
)


def service_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a Service keeps the class of its load balancer, its port for health checks, and its addresses, unless
    it becomes or was an ExternalName.
    """
    wanted, before = new.get("spec") or {}, live.get("spec") or {}
    classes = before.get("loadBalancerClass"), wanted.get("loadBalancerClass")
    if wanted.get("type") == before.get("type") == "LoadBalancer" and classes[0] != classes[1]:
        found.append(invalid("spec.loadBalancerClass", classes[1], "may not change once set"))
    checks = before.get("healthCheckNodePort"), wanted.get("healthCheckNodePort")
    if all(checks) and checks[0] != checks[1]:
        found.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    if "ExternalName" in (wanted.get("type"), before.get("type")):
        return
    kept, given = before.get("clusterIPs") or [], wanted.get("clusterIPs") or []
    if kept and not given:
        found.append(invalid("spec.clusterIPs[0]", given, "primary clusterIP can not be unset"))
    elif kept and kept[0] != given[0]:
        found.append(invalid("spec.clusterIPs[0]", given, "may not change once set"))
    elif len(kept) == len(given) > 1 and kept[1] != given[1]:
        found.append(invalid("spec.clusterIPs[1]", given, "may not change once set"))
    _family_update(wanted, before, found)


def _family_update(wanted: JsonObject, before: JsonObject, found: Causes) -> None:
    """Check that a Service keeps the families of its addresses; only a second one comes and goes."""
    kept, given = before.get("ipFamilies") or [], wanted.get("ipFamilies") or []
    if _NONE in (wanted.get("clusterIP"), before.get("clusterIP")):
        return
    where = "spec.ipFamilies[0]"
    if len(kept) > len(given) and not given:
        found.append(invalid(where, given, "primary ipFamily can not be unset"))
    elif kept and given and kept[: len(given)] != given[: len(kept)]:
        found.append(invalid(where, given, "may not change once set"))
    if len(kept) > len(given) == 1 and wanted.get("ipFamilyPolicy") != "SingleStack":
        why = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        found.append(invalid("spec.ipFamilyPolicy", wanted.get("ipFamilyPolicy"), why))


_ENDPOINT_ADDRESS: Final = Fields(
    {"ip": or_zero(_endpoint_address, ""), "hostname": _label, "nodeName": pointer(_subdomain)}
)


def _subset(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if not value.get("addresses") and not value.get("notReadyAddresses"):
        found.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    ports = value.get("ports") or ()
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            found.append(required(f"{path}.ports[{index}].name"))


_ENDPOINT_PORT: Final = Fields(
    {"name": _label, "port": or_zero(port_number), "protocol": _PROTOCOL, "appProtocol": pointer(label_key)}
)
endpoints = Fields(
    {
        "subsets": Each(
            Fields(
                {
                    "addresses": Each(_ENDPOINT_ADDRESS),
                    "notReadyAddresses": Each(_ENDPOINT_ADDRESS),
                    "ports": Each(_ENDPOINT_PORT),
                },
                _subset,
            )
        )
    }
)


def _has_version(text: str, kind: str) -> bool:
    """Return whether a text is an address of a family; an IPv4 address in the form of IPv6 is one of none."""
    try:
        found = read_address(text)
    except ValueError:
        return False
    return f"IPv{found.version}" == kind and (not isinstance(found, IPv6Address) or found.ipv4_mapped is None)


def _slice_addresses(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    kind = obj.get("addressType")
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        where, given = f"{path}.endpoints[{index}].addresses", endpoint.get("addresses") or ()
        if not given:
            found.append(required(where, "must contain at least 1 address"))
        for number, text in enumerate(given):
            at = f"{where}[{number}]"
            if kind == "FQDN":
                _subdomain(text, at, found)
            elif kind in ("IPv4", "IPv6"):
                if not _has_version(text, kind):
                    found.append(invalid(at, text, f"must be a valid {kind} address"))
                _no_special_address(text, at, found)


def _zones(value: Any, path: str, found: Causes) -> None:
    if len(value) > _MOST_ZONES:
        found.append(too_many(path, len(value), _MOST_ZONES))
        return
    seen = set[str]()
    for index, each in enumerate(value):
        name = str(each.get("name") or "")
        if name in seen:
            found.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)
        named(faults_of_label_value)(name, f"{path}[{index}].name", found)


_SLICE_PORT: Final = Fields(
    {
        "name": named(faults_of_port_name),
        "protocol": _PROTOCOL,
        "appProtocol": pointer(label_key),
    }
)
endpoint_slice = Fields(
    {
        "addressType": needed(one_of("FQDN", "IPv4", "IPv6")),
        "endpoints": Each(
            Fields(
                {
                    "addresses": Each(anything, most=_MOST_ADDRESSES),
                    "hostname": pointer(_label),
                    "nodeName": pointer(_subdomain),
                    "hints": Fields({"forZones": _zones}),
                }
            ),
            most=_MOST_ENDPOINTS,
        ),
        "ports": Each(_SLICE_PORT, unique("name"), most=_MOST_PORTS),
    },
    _slice_addresses,
)


def slice_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that an EndpointSlice keeps the type of its addresses."""
    if new.get("addressType") != live.get("addressType"):
        found.append(invalid("addressType", new.get("addressType"), "field is immutable"))
