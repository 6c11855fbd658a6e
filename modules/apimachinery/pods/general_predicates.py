"""Resources, number of pods and host ports of the node (kubelet's GeneralPredicates)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from ipaddress import ip_address

from modules.apimachinery.pods.demand import Amounts
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Pod

PODS = "pods"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""The resources that are looked at before all others, in this order."""
_THOUSANDTHS = 1000
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound

Port = tuple[str, str, int]
"""A port of the node: address, protocol, number."""

TakenPorts = dict[tuple[str, int], dict[str, int]]
"""How many pods have a port at each address, by its protocol and number."""


def insufficient_amounts(
    requests: Amounts, used: Mapping[str, Fraction], allocatable: Mapping[str, Fraction]
) -> Iterator[tuple[str, str]]:
    """Yield the resources that are insufficient for a pod, with the message of each, in kubelet's order.

    An extended resource without its device plug-in is insufficient. Before the first report of the node no resource is.

    Args:
        requests: of the pod.
        used: the requests of other pods, with their number.
        allocatable: of the node.
    """
    for name in (PODS, *(each for each in _COMPUTE if each in requests), *sorted(requests.keys() - {*_COMPUTE})):
        amount, there = requests.get(name, 1), allocatable.get(name, 0)
        if allocatable and amount > 0 and used.get(name, 0) + amount > there:
            yield name, _sentence(name, amount, used.get(name, 0), there)


def used_port(wanted: Iterable[Port], taken: TakenPorts) -> Port | None:
    """Return the first of the wanted ports that is taken; None when all are free."""
    return next((port for port in wanted if _is_in_use(port[0], taken.get(port[1:], {}))), None)


def taken_ports(used: Iterable[Sequence[Port]]) -> TakenPorts:
    """Return the ports that pods take, given the ports of each."""
    taken: TakenPorts = {}
    for ports in used:
        for address, protocol, number in ports:
            at = taken.setdefault((protocol, number), {})
            at[address] = at.get(address, 0) + 1
    return taken


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


def _is_in_use(address: str, at: Mapping[str, int]) -> bool:
    """Return whether a port is taken at an address: there, or anywhere when one of both means all addresses."""
    return bool(at) and (address in at or address in _ANY_ADDRESS or not _ANY_ADDRESS.isdisjoint(at))


def _sentence(name: str, amount: Fraction | int, used: Fraction | int, there: Fraction | int) -> str:
    scale = _THOUSANDTHS if name == "cpu" else 1
    requested, in_use, capacity = (int(value * scale) for value in (amount, used, there))
    return f"Node didn't have enough resource: {name}, requested: {requested}, used: {in_use}, capacity: {capacity}"
