"""The room of the node that its pods take: sums that each change of a pod keeps."""

from fractions import Fraction

import msgspec

from edged.pods.model import PodUid
from modules.apimachinery.pods.demand import Amounts, pod_requests
from modules.apimachinery.pods.general_predicates import PODS, Port, TakenPorts, host_ports, taken_ports, used_port
from modules.apimachinery.types import Pod


class Demand(msgspec.Struct, frozen=True):
    """The room that a pod takes."""

    requests: Amounts
    ports: list[Port]
    pod: str
    """Its namespace and name."""


def demand_of(pod: Pod) -> Demand:
    """Return the room that a valid pod takes."""
    return Demand(pod_requests(pod), host_ports(pod), f"{pod.metadata.namespace}/{pod.metadata.name}")


class TakenRoom:
    """The resources and host ports that admitted pods take, so that the admission of a pod costs the same beside any
    number of others.
    """

    def __init__(self) -> None:
        self.ports: TakenPorts = {}
        """How many pods have a port at each address, by protocol and number."""
        self._demands: dict[PodUid, Demand] = {}
        self._requests: Amounts = {}

    @property
    def used(self) -> Amounts:
        """The requests of the pods, with their number."""
        return {**self._requests, PODS: Fraction(len(self._demands))}

    def pod_with(self, port: Port, namespace: str) -> str:
        """Return, for a sentence, the pod that has a port which a pod of a namespace wants; of another namespace
        without its name.
        """
        found = [each.pod for each in self._demands.values() if used_port([port], taken_ports([each.ports]))]
        own = (f"pod {each}" for each in found if each.startswith(f"{namespace}/"))
        return next(own, "a pod of another namespace")

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._demands

    def put(self, uid: PodUid, demand: Demand) -> None:
        """Count a pod, or the new state of a counted one."""
        self.remove(uid)
        self._demands[uid] = demand
        self._count(demand, 1)

    def remove(self, uid: PodUid) -> None:
        """Count a pod no longer, if it is counted."""
        demand = self._demands.pop(uid, None)
        if demand is not None:
            self._count(demand, -1)

    def _count(self, demand: Demand, sign: int) -> None:
        used, ports = self._requests, self.ports
        for name, amount in demand.requests.items():
            used[name] = used[name] + sign * amount if name in used else amount
            if not used[name]:
                del used[name]
        for address, protocol, number in demand.ports:
            at = ports.setdefault((protocol, number), {})
            at[address] = at.get(address, 0) + sign
            if not at[address]:
                del at[address]
            if not at:
                del ports[protocol, number]
