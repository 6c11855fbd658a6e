"""Resources, number of pods and host ports of the node (kubelet's GeneralPredicates)."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from ipaddress import ip_address

from modules.apimachinery.pods.demand import Amounts, pod_requests
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Pod

_PODS = "pods"
_THOUSANDTHS = 1000
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound

Port = tuple[str, str, int]
"""A port of the node: address, protocol, number."""


def insufficient_resource(
    pod: Pod, others: Sequence[Pod], allocatable: Mapping[str, Fraction]
) -> tuple[str, str] | None:
    """Return the first resource that is insufficient for a pod, with the message; None when all are sufficient.

    An extended resource without its device plug-in is insufficient. Before the first report of the node no resource is.
    """
    if not allocatable:
        return None
    requests = pod_requests(pod)
    used = used_resources(others) if requests else {_PODS: Fraction(len(others))}
    return insufficient_amount(requests, used, allocatable)


def insufficient_amount(
    requests: Amounts, used: Mapping[str, Fraction], allocatable: Mapping[str, Fraction]
) -> tuple[str, str] | None:
    """Return the same as `insufficient_resource`, given the requests of the pod, and the resources that other pods use
    (`used_resources`).
    """
    if not allocatable:
        return None
    for name in (_PODS, *sorted(requests)):
        amount, there = requests.get(name, 1), allocatable.get(name, 0)
        if amount > 0 and used.get(name, 0) + amount > there:
            return name, _sentence(name, amount, used.get(name, 0), there)
    return None


def used_host_port(pod: Pod, others: Iterable[Pod]) -> Port | None:
    """Return the first host port of a pod that another pod uses; None when all are free."""
    wanted = host_ports(pod)
    return used_port(wanted, map(host_ports, others)) if wanted else None


def used_port(wanted: Sequence[Port], used: Iterable[Sequence[Port]]) -> Port | None:
    """Return the first of the wanted ports that is used, given the ports of each pod."""
    taken: dict[tuple[str, int], set[str]] = {}
    for ports in used:
        for address, protocol, number in ports:
            taken.setdefault((protocol, number), set()).add(address)
    return next((port for port in wanted if _is_in_use(port[0], taken.get(port[1:], set()))), None)


def host_ports(pod: Pod) -> list[Port]:
    """Return the host ports of a pod. On the host's network every port of its containers is one, as the API server
    defaults it.
    """
    sidecars = (c for c in pod.spec.init_containers if is_sidecar(c))
    ports = (port for c in (*sidecars, *pod.spec.containers) for port in c.ports)
    numbers = ((p, p.host_port or (p.container_port if pod.spec.host_network else 0)) for p in ports)
    return [(_canonical(port.host_ip), port.protocol or "TCP", number) for port, number in numbers if number]


def _canonical(address: str) -> str:
    """Return an address in one spelling of many; a text that is none as it is."""
    try:
        return str(ip_address(address)) if address else ""
    except ValueError:
        return address


def _is_in_use(address: str, by: set[str]) -> bool:
    """Return whether a port is taken at an address: by the address itself, or by any when one means all of them."""
    return bool(by) and (address in by or address in _ANY_ADDRESS or not by.isdisjoint(_ANY_ADDRESS))


def used_resources(pods: Sequence[Pod]) -> Amounts:
    """Return the resource requests of pods, with the number of pods."""
    used: Amounts = {_PODS: Fraction(len(pods))}
    for pod in pods:
        for name, amount in pod_requests(pod).items():
            used[name] = used.get(name, Fraction()) + amount
    return used


def _sentence(name: str, amount: Fraction | int, used: Fraction | int, there: Fraction | int) -> str:
    scale = _THOUSANDTHS if name == "cpu" else 1
    requested, in_use, capacity = (int(value * scale) for value in (amount, used, there))
    return f"Node didn't have enough resource: {name}, requested: {requested}, used: {in_use}, capacity: {capacity}"
