"""How this node uses control groups: the kubelet's settings of them."""

from enum import StrEnum
from fractions import Fraction

import msgspec

from edged.api import parse_quantity


class Driver(StrEnum):
    """Who makes control groups (`cgroupDriver`)."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Reservation(msgspec.Struct, frozen=True):
    """What is kept for others than pods.

    Attributes:
        amounts: quantities by resource (`cpu`, `memory`, `ephemeral-storage`, `pid`).
        cgroup: the cgroup of those others, on which the amounts are enforced when that is asked for.
    """

    amounts: dict[str, str] = {}
    cgroup: str = ""


class CgroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's docstring. Names in brackets are the kubelet's."""

    per_qos: bool = True
    """Whether pods and classes have cgroups of their own (`cgroupsPerQOS`)."""

    driver: Driver = Driver.CGROUPFS
    """Who makes them (`cgroupDriver`); it must be the container runtime's too."""

    root: str = "/"
    """Cgroup below which everything is (`cgroupRoot`). Two agents of one machine need two of them."""

    pids: int = -1
    """Most processes of a pod; -1: no limit (`podPidsLimit`)."""

    enforce: tuple[str, ...] = ("pods",)
    """Whose share of the node is enforced: `pods`, `kube-reserved`, `system-reserved` (`enforceNodeAllocatable`)."""

    kube_reserved: Reservation = Reservation()
    """For the node agent and the runtime (`kubeReserved`, `kubeReservedCgroup`)."""

    system_reserved: Reservation = Reservation()
    """For the system (`systemReserved`, `systemReservedCgroup`)."""

    def reserved(self) -> dict[str, Fraction]:
        """Both reservations together, in base units. Raises QuantityError."""
        total: dict[str, Fraction] = {}
        for reservation in (self.kube_reserved, self.system_reserved):
            for name, quantity in reservation.amounts.items():
                total[name] = total.get(name, Fraction(0)) + parse_quantity(quantity)
        return total
