"""The addresses and node ports of Services: ClusterIPs from ranges, NodePorts from a range of ports.

From the allocation of kube-apiserver 1.32 (`pkg/registry/core/service/storage/alloc.go`), without its bitmaps and
repair loops: the stored Services have the addresses that are taken. A transaction sees all of them, also Services of
other cloudcores, so no address is given twice, and the address of a deleted Service is free immediately.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from beehive.whole_numbers import whole_number
from modules.apimachinery.api_errors import InternalError, InvalidError
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.validation.causes import Cause, invalid, shown
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiserver.service_defaults import DEFAULT_PORTS, DEFAULT_RANGE
from modules.cloud.storage.service_numbers import ServiceNumbers

HEADLESS: Final = "None"
API_SERVER: Final = ("default", "kubernetes")
"""Namespace and name of the Service that leads to the API server."""
_EXTERNAL_NAME: Final = "ExternalName"
_WITH_PORTS: Final = ("NodePort", "LoadBalancer")
_HEALTH_CHECK: Final = "healthCheckNodePort"
_OF_ADDRESSES: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_MOST_ADDRESSES: Final = 1 << 16
"""Addresses of a larger range (an IPv6 one) that are given out, as by kube-apiserver's bitmap."""
FAMILY: Final = {4: "IPv4", 6: "IPv6"}
_OTHER: Final = {"IPv4": "IPv6", "IPv6": "IPv4"}

_Network = IPv4Network | IPv6Network


class ServiceRanges(NamedTuple):
    """The ranges of addresses and node ports for Services."""

    networks: Mapping[str, _Network]
    """By family, `IPv4` or `IPv6`; Services that name no family get the first one."""
    ports: range


def service_ranges(networks: str = DEFAULT_RANGE, ports: str = DEFAULT_PORTS) -> ServiceRanges:
    """Return the ranges of kube-apiserver's `--service-cluster-ip-range` and `--service-node-port-range`.

    Args:
        networks: one network, or two of different families, separated by a comma.
        ports: the first and the last one, as `30000-32767`.

    Raises:
        ValueError: they cannot be read; the message names the accepted form.
    """
    found: dict[str, _Network] = {}
    for text in networks.split(","):
        network = ip_network(text.strip())
        if found.setdefault(FAMILY[network.version], network) is not network:
            raise ValueError(f"{networks}: two ranges are one for IPv4 and one for IPv6")
        if network.num_addresses < 8:
            raise ValueError(f"{text}: a range of Services has 8 addresses or more")
    first, _, last = ports.partition("-")
    lowest, highest = whole_number(first) or 0, whole_number(last) or 0
    if not 0 < lowest <= highest <= 65535:
        raise ValueError(f"{ports}: a range of ports is written as {DEFAULT_PORTS}")
    return ServiceRanges(found, range(lowest, highest + 1))


def api_server_address(ranges: ServiceRanges) -> str:
    """Return the address of the API server for pods, the first of the range. No other Service gets it, even if
    the API server has none yet: pods would send what they ask the API server to its owner.
    """
    return str(next(iter(ranges.networks.values()))[1])


def with_kept_addresses(new: JsonObject, live: JsonObject) -> JsonObject:
    """Return a new state of a Service with the addresses and node ports of the stored one where it names none. Fields
    that a type does not have go when the type changes, and a changed address is the first one of a list that was not
    changed (`patchAllocatedValues`, `normalizeClusterIPs`, `dropTypeDependentFields`).
    """
    spec, before = dict(new.get("spec") or {}), live.get("spec") or {}
    if spec.get("type") == _EXTERNAL_NAME != before.get("type"):
        for field in _OF_ADDRESSES:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    elif before.get("type") != _EXTERNAL_NAME:
        spec = {**{field: before[field] for field in _OF_ADDRESSES if before.get(field)}, **_without_empty(spec)}
        if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
    if before.get("type") in _WITH_PORTS and spec.get("ports"):
        if spec.get("type") not in _WITH_PORTS:
            spec["ports"] = _without_known_ports(spec["ports"], before)
        elif _needs_ports(before) and _needs_ports(spec):
            spec["ports"] = _with_known_ports(spec["ports"], before)
    if _has_health_check(before) and _has_health_check(spec) and not spec.get(_HEALTH_CHECK):
        spec[_HEALTH_CHECK] = before.get(_HEALTH_CHECK)
    for field, is_of in _OF_TYPES.items():
        if is_of(before) and not is_of(spec) and spec.get(field) == before.get(field):
            spec.pop(field, None)
    return {**new, "spec": spec}


def _is_external(spec: JsonObject) -> bool:
    """Return whether a Service can be reached from outside (`ExternallyAccessible`)."""
    return spec.get("type") in _WITH_PORTS or (spec.get("type") != _EXTERNAL_NAME and bool(spec.get("externalIPs")))


def _is_balanced(spec: JsonObject) -> bool:
    return spec.get("type") == "LoadBalancer"


def _needs_ports(spec: JsonObject) -> bool:
    """Return whether each port of a Service outside of the cluster gets a node port (`needsNodePort`)."""
    return not _is_balanced(spec) or spec.get("allocateLoadBalancerNodePorts") is not False


def _has_health_check(spec: JsonObject) -> bool:
    """Return whether a load balancer asks nodes whether they have endpoints (`NeedsHealthCheck`)."""
    return _is_balanced(spec) and spec.get("externalTrafficPolicy") == "Local"


_OF_TYPES: Final[dict[str, Callable[[JsonObject], bool]]] = {
    "externalTrafficPolicy": _is_external,
    _HEALTH_CHECK: _has_health_check,
    "allocateLoadBalancerNodePorts": _is_balanced,
    "loadBalancerClass": _is_balanced,
}
"""Fields that only some Services have, and that go unchanged with what they need."""


def _without_empty(spec: JsonObject) -> JsonObject:
    return {field: value for field, value in spec.items() if value or field not in _OF_ADDRESSES}


def _ports_by_name(spec: JsonObject) -> dict[str, int]:
    ports = spec.get("ports") or ()
    return {str(port.get("name") or ""): port["nodePort"] for port in ports if port.get("nodePort")}


def _with_known_ports(ports: Sequence[JsonObject], before: JsonObject) -> list[JsonObject]:
    known, given = _ports_by_name(before), {port.get("nodePort") for port in ports}

    def completed(port: JsonObject) -> JsonObject:
        number = known.get(str(port.get("name") or ""))
        return port if port.get("nodePort") or number is None or number in given else {**port, "nodePort": number}

    return [completed(port) for port in ports]


def _without_known_ports(ports: Sequence[JsonObject], before: JsonObject) -> list[JsonObject]:
    known = set(_ports_by_name(before).values())
    if {port["nodePort"] for port in ports if port.get("nodePort")} - known:
        return list(ports)  # refused by validation: somebody has set one
    return [{name: value for name, value in port.items() if name != "nodePort"} for port in ports]


def with_addresses(
    service: JsonObject, live: JsonObject | None, known: ServiceNumbers, ranges: ServiceRanges, seed: str
) -> JsonObject:
    """Return a valid Service with the addresses and node ports that it lacks.

    Args:
        service: the Service.
        live: its stored state, whose addresses and ports it may keep; None: it is new.
        known: the addresses and ports of all Services.
        ranges: to choose from.
        seed: chooses among free ones; a uid, for instance.

    Raises:
        InvalidError: it asks for an address or port that is taken or outside of the range, or for a family that there
            is not.
        InternalError: a range is full.
    """
    spec = service.get("spec") or {}
    if spec.get("type") == _EXTERNAL_NAME:
        return service
    own = (live or {}).get("spec") or {}
    key = key_of(service)
    used = _Used(known, key, [] if (key.namespace, key.name) == API_SERVER else [api_server_address(ranges)])
    completed = _with_cluster_ips(key.name, _with_families(key.name, spec, ranges), own, used, ranges, seed)
    if spec.get("type") in _WITH_PORTS:
        completed = _with_node_ports(key.name, completed, own, used, ranges.ports, seed)
    if _has_health_check(spec):
        completed = _with_health_check(completed, own, used, ranges.ports, seed)
    return {**service, "spec": completed}


class _Used:
    """Reservations that a Service may not get: the addresses and ports of others, and what is reserved.

    Args:
        known: of all Services.
        key: of the Service.
        reserved: beside those.
    """

    def __init__(self, known: ServiceNumbers, key: ObjectKey, reserved: Iterable[object] = ()) -> None:
        self._known = known
        self._key = key
        self._reserved = set(reserved)

    def __contains__(self, number: object) -> bool:
        return number in self._reserved or self._known.others_have(number, self._key)

    def beside(self, numbers: Iterable[int]) -> "_Used":
        """Return the same with further ports."""
        return _Used(self._known, self._key, {*self._reserved, *numbers})

    def add(self, number: int) -> None:
        """Reserve a port."""
        self._reserved.add(number)


def _with_families(name: str, given: JsonObject, ranges: ServiceRanges) -> JsonObject:
    """Return the spec with its families and their policy (`initIPFamilyFields`)."""
    addresses, families = list(given.get("clusterIPs") or ()), list(given.get("ipFamilies") or ())
    is_loose = addresses == [HEADLESS] and not given.get("selector")
    policy = given.get("ipFamilyPolicy") or ("RequireDualStack" if is_loose else "SingleStack")
    if policy == "SingleStack":
        for values, what in ((addresses, "cluster IPs"), (families, "IP families")):
            if len(values) > 1:
                why = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                raise _invalid(name, "spec.ipFamilyPolicy", policy, why)
    wrong: list[Cause] = []
    if policy == "RequireDualStack" and len(ranges.networks) == 1 and not is_loose:
        wrong.append(invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services"))
    others = [address for address in addresses[len(families) :] if address != HEADLESS]
    families += [FAMILY[ip_address(address).version] for address in others]
    families = families or [next(iter(ranges.networks))]
    if policy != "SingleStack" and len(families) == 1 and (is_loose or len(ranges.networks) > 1):
        families.append(_OTHER[families[0]])
    for index, family in enumerate(families):
        if family not in ranges.networks and not is_loose:
            wrong.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    if wrong:
        raise InvalidFieldsError("Service", "", name, wrong)
    return {**given, "ipFamilies": families, "ipFamilyPolicy": policy}


def _with_cluster_ips(
    name: str, spec: JsonObject, own: JsonObject, used: _Used, ranges: ServiceRanges, seed: str
) -> JsonObject:
    addresses = list(spec.get("clusterIPs") or ())
    if addresses == [HEADLESS]:
        return spec
    kept = own.get("clusterIPs") or ()
    for index, family in enumerate(spec["ipFamilies"]):
        network = ranges.networks[family]
        if index == len(addresses):
            addresses.append(_free_address(name, network, used, seed))
        elif addresses[index] not in kept:
            why = _address_fault(addresses[index], network, used)
            if why:
                why = f"failed to allocate IP {addresses[index]}: {why}"
                raise _invalid(name, "spec.clusterIPs", addresses, why)
    return {**spec, "clusterIP": addresses[0], "clusterIPs": addresses}


def _address_fault(address: str, network: _Network, used: _Used) -> str:
    first, last = network.network_address, network.broadcast_address
    found = ip_address(address)
    if found not in network or found == first or (network.version == 4 and found == last):
        return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {network}"
    return "provided IP is already allocated" if address in used else ""


def _free_address(name: str, network: _Network, used: _Used, seed: str) -> str:
    """Return a free address. The lower band is for Services that name theirs: it is used when no other is free."""
    size = min(network.num_addresses - (2 if network.version == 4 else 1), _MOST_ADDRESSES)
    for offset in _offsets(size, min(max(16, size // 16), 256), seed):
        address = str(network[1 + offset])
        if address not in used:
            return address
    raise InternalError(f'failed to allocate a serviceIP for Service "{name}": range is full')


def _offsets(size: int, band: int, seed: str) -> Iterator[int]:
    """Yield all offsets below a size: first the offsets above a band, beginning anywhere, then the band."""
    band = band if band < size else 0
    start = int.from_bytes(sha256(seed.encode()).digest()[:8]) % (size - band)
    yield from (band + (start + step) % (size - band) for step in range(size - band))
    yield from range(band)


def _with_node_ports(name: str, spec: JsonObject, own: JsonObject, used: _Used, ports: range, seed: str) -> JsonObject:
    """Return the spec with a node port for each port; TCP and UDP on one number share theirs (`initNodePorts`)."""
    given, kept = spec.get("ports") or (), set(_numbers(own))
    used = used.beside(number for number in (own.get(_HEALTH_CHECK), spec.get(_HEALTH_CHECK)) if number)
    numbers: dict[object, int] = {}
    for index, port in enumerate(given):
        number = port.get("nodePort")
        if not number:
            continue
        why = "" if number in kept else _port_fault(number, ports, used)
        if why:
            raise _invalid(name, f"spec.ports[{index}].nodePort", number, why)
        numbers.setdefault(port.get("port"), number)
    if not _needs_ports(spec):
        return spec
    used = used.beside(_numbers(spec))
    completed = []
    for port in given:
        number = port.get("nodePort") or numbers.get(port.get("port"))
        if not number:
            number = numbers[port.get("port")] = _free_port(ports, used, seed)
            used.add(number)
        completed.append({**port, "nodePort": number})
    return {**spec, "ports": completed}


def _with_health_check(spec: JsonObject, own: JsonObject, used: _Used, ports: range, seed: str) -> JsonObject:
    """Return the spec with the node port for health checks (`initHealthCheckNodePort`)."""
    number = spec.get(_HEALTH_CHECK)
    used = used.beside(_numbers(spec))
    if not number:
        return {**spec, _HEALTH_CHECK: _free_port(ports, used, seed, "HealthCheck NodePort")}
    why = "" if number == own.get(_HEALTH_CHECK) else _port_fault(number, ports, used)
    if why:
        raise InternalError(f"failed to allocate requested HealthCheck NodePort {number}: {why}")
    return spec


def _numbers(spec: JsonObject) -> Iterator[int]:
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]


def _port_fault(number: int, ports: range, used: _Used) -> str:
    if number not in ports:
        found = f"{ports.start}-{ports.stop - 1}"
        return f"provided port is not in the valid range. The range of valid ports is {found}"
    return "provided port is already allocated" if number in used else ""


def _free_port(ports: range, used: _Used, seed: str, what: str = "nodePort") -> int:
    for offset in _offsets(len(ports), min(max(16, len(ports) // 32), 128), seed):
        if ports[offset] not in used:
            return ports[offset]
    raise InternalError(f"failed to allocate a {what}: range is full")


def _invalid(name: str, field: str, value: object, why: str) -> InvalidError:
    return InvalidError("Service", name, field, f"Invalid value: {shown(value)}: {why}")
