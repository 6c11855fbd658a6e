"""kubelet's settings of control groups."""

from enum import StrEnum
from fractions import Fraction

import msgspec

from modules.apimachinery.types import parse_quantity


class CgroupDriver(StrEnum):
    """The maker of control groups (`cgroupDriver`)."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Reservation(msgspec.Struct, frozen=True):
    """Resources reserved for others than pods.

    Attributes:
        amounts: quantities by resource (`cpu`, `memory`, `ephemeral-storage`, `pid`).
        cgroup: the cgroup of those others, which gets the amounts as limits if they are enforced.
    """

    amounts: dict[str, str] = {}
    cgroup: str = ""


class CgroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Use of control groups by this node. Names in brackets are kubelet's."""

    per_qos: bool = True
    """Whether pods and classes have cgroups of their own (`cgroupsPerQOS`)."""

    driver: CgroupDriver = CgroupDriver.CGROUPFS
    """The maker of cgroups (`cgroupDriver`); must be the container runtime's too."""

    root: str = "/"
    """The cgroup of all others (`cgroupRoot`). Two agents of one machine need two of them."""

    pids: int = -1
    """Largest number of processes of a pod; -1: no limit (`podPidsLimit`)."""

    enforce: tuple[str, ...] = ("pods",)
    """Enforced shares of the node: `pods`, `kube-reserved`, `system-reserved` (`enforceNodeAllocatable`)."""

    kube_reserved: Reservation = Reservation()
    """Reservation for the node agent and the runtime (`kubeReserved`, `kubeReservedCgroup`)."""

    system_reserved: Reservation = Reservation()
    """Reservation for the system (`systemReserved`, `systemReservedCgroup`)."""

    def reserved(self) -> dict[str, Fraction]:
        """Return the sum of both reservations, in base units. Raises QuantityError."""
        total: dict[str, Fraction] = {}
        for reservation in (self.kube_reserved, self.system_reserved):
            for name, quantity in reservation.amounts.items():
                total[name] = total.get(name, Fraction(0)) + parse_quantity(quantity)
        return total
