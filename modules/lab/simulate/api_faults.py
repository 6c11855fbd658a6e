"""Faults between cloudcore and the API server of a cluster, and of this server."""

from collections.abc import Callable, Mapping
from typing import Final

from modules.lab.simulate.clustered_cloud import ClusteredCloud
from modules.lab.simulate.plan import Fault, FaultKind
from modules.lab.simulate.undo import Undo, raised

_Begin = Callable[[ClusteredCloud, Fault], Undo]


def _once(attribute: str) -> _Begin:
    """Add one to a number of the network while the fault lasts."""
    return lambda cloud, _fault: raised(cloud.network, attribute, 1)


def _by_amount(attribute: str) -> _Begin:
    """Add the fault's amount to a number of the network while the fault lasts."""
    return lambda cloud, fault: raised(cloud.network, attribute, fault.amount)


def _compact(cloud: ClusteredCloud, fault: Fault) -> Undo:
    cloud.api.compact()
    return raised(cloud.network, "expires", fault.amount)


def _restart(cloud: ClusteredCloud, _fault: Fault) -> Undo:
    cloud.api.stop()
    return cloud.start_api


def _restore(cloud: ClusteredCloud, fault: Fault) -> Undo:
    cloud.api.stop()
    cloud.restore(fault.amount)
    return cloud.start_api


API_FAULTS: Final[Mapping[FaultKind, _Begin]] = {
    FaultKind.API_AWAY: _once("away"),
    FaultKind.API_UNREACHABLE: _once("unreachable"),
    FaultKind.API_SLOW: _by_amount("slow"),
    FaultKind.API_CUT: _by_amount("cuts"),
    FaultKind.API_LOSES_ANSWERS: _by_amount("loses"),
    FaultKind.API_BUSY: _by_amount("busy"),
    FaultKind.API_FAILS: _by_amount("fails"),
    FaultKind.WATCH_CUT: _by_amount("cuts_watches"),
    FaultKind.WATCH_SILENT: _once("silent"),
    FaultKind.API_COMPACTS: _compact,
    FaultKind.API_RESTART: _restart,
    FaultKind.API_RESTORED: _restore,
}
"""Each function begins a fault, and returns the function that ends it."""
