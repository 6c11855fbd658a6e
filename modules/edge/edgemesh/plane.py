"""The carrier of connections to endpoints: the kernel's NAT, or a proxy of this process."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from modules.edge.edgemesh.nft.addresses import AddressError, HostAddresses
from modules.edge.edgemesh.nft.conntrack import changed_udp, delete_stale
from modules.edge.edgemesh.nft.kernel import KernelRules
from modules.edge.edgemesh.nft.program import NftError
from modules.edge.edgemesh.nft.watch import NftWatch, RulesWatch
from modules.edge.edgemesh.tables import Address, PortTable

T = TypeVar("T")

Tables = Mapping[str, PortTable]
"""The tables of a node, by their keys."""

DeleteFlows = Callable[[Mapping[Address, frozenset[Address]]], int]
"""Deletes tracked flows to endpoints that are gone; raises OSError."""


class PlaneError(Exception):
    """Connections cannot be carried as they are to be; the text has the reason."""


class DataPlane(Protocol):
    """A data plane, which carries connections. Its functions block; one thread at a time calls them."""

    @property
    def kind(self) -> str:
        """Its name in the configuration."""

    def prepare(self) -> None:
        """Find out whether it can work here. Raises PlaneError."""

    def apply(self, tables: Tables, pods: Iterable[str]) -> None:
        """Carry new connections as tables say; `pods` has the addresses of the node's own. Raises PlaneError."""

    def reach(self, table: PortTable) -> Address:
        """Return where pods, and programs of the node's network, reach a port of a Service. Any thread, after
        `prepare`.
        """

    def clean(self) -> None:
        """Remove leftovers of earlier changes, at least a second after the last change. Raises PlaneError."""

    def watch(self) -> RulesWatch | None:
        """Return a watch that reports when somebody else has removed what `apply` made; None without one."""

    def restore(self) -> None:
        """Make everything with the next `apply`, whatever there still is."""

    def is_whole(self) -> bool:
        """Return whether everything is still there. Raises PlaneError."""

    def close(self) -> None:
        """End; the kernel's rules stay."""


class NftPlane:
    """A `DataPlane` of nftables rules, a route and the connections that the kernel tracks.

    Args:
        rules: the rules.
        addresses: of the machine.
        service_cidrs: ranges of Services' addresses.
        delete_flows: deletes tracked flows.
    """

    kind: Final = "nft"

    def __init__(
        self,
        rules: KernelRules,
        addresses: HostAddresses,
        service_cidrs: Iterable[str],
        delete_flows: DeleteFlows = delete_stale,
    ) -> None:
        self._rules = rules
        self._addresses = addresses
        self._cidrs = tuple(service_cidrs)
        self._delete_flows = delete_flows
        self._tables: Tables = {}
        self._stale: dict[Address, frozenset[Address]] = {}
        """The addresses of UDP Services whose flows to endpoints that are gone could not be ended, with what serves."""

    def prepare(self) -> None:
        """See `DataPlane`."""
        try:
            self._rules.check()
            for cidr in self._cidrs:
                self._addresses.add_route(cidr)
        except (NftError, AddressError) as error:
            raise PlaneError(str(error)) from error

    def apply(self, tables: Tables, pods: Iterable[str]) -> None:
        """See `DataPlane`."""
        try:
            self._rules.apply(tuple(tables.values()), pods)
        except NftError as error:
            raise PlaneError(f"the kernel refuses the rules: {error}") from error
        try:
            self._end_flows(self._tables, tables)
        except (OSError, AddressError) as error:
            raise PlaneError(f"tracked UDP flows cannot be ended: {error}") from error

    def reach(self, table: PortTable) -> Address:
        """See `DataPlane`."""
        return table.addresses[0], table.port

    def clean(self) -> None:
        """See `DataPlane`."""
        try:
            self._rules.delete_unused()
        except NftError as error:
            raise PlaneError(str(error)) from error

    def watch(self) -> RulesWatch | None:
        """See `DataPlane`."""
        try:
            return NftWatch()
        except OSError:
            return None

    def restore(self) -> None:
        """See `DataPlane`."""
        self._rules.forget()

    def is_whole(self) -> bool:
        """See `DataPlane`."""
        try:
            return self._rules.is_whole()
        except NftError as error:
            raise PlaneError(str(error)) from error

    def close(self) -> None:
        """See `DataPlane`. Rules and route stay, so that connections survive a restart."""

    def _end_flows(self, before: Tables, after: Tables) -> None:
        """End the flows to endpoints that are gone. Flows that cannot be ended now are ended with the next change, or
        the repetition of this one. Raises OSError, AddressError.
        """
        has_node_ports = any(each.node_port and each.protocol == "udp" for each in (*before.values(), *after.values()))
        changed = changed_udp(before, after, self._addresses.of_node() if has_node_ports else (), self._stale)
        self._tables = dict(after)
        self._stale |= changed
        if not self._stale:
            return
        self._delete_flows(self._stale)
        self._stale = {}


class Within(Protocol):
    """A call of a function in a network namespace, on a thread of its own, with the function's result."""

    def __call__(self, function: Callable[[], T], /) -> T:
        """Call the function. Raises OSError when the namespace cannot be entered."""


class NamespacedPlane:
    """A `DataPlane` that works in another network namespace, such as that of the pods of a node without root.

    Args:
        plane: what works there. It opens its watch there, too, and is closed outside.
        within: enters the namespace.
    """

    def __init__(self, plane: DataPlane, within: Within) -> None:
        self._plane = plane
        self._within = within

    @property
    def kind(self) -> str:
        """See `DataPlane`."""
        return self._plane.kind

    def prepare(self) -> None:
        """See `DataPlane`."""
        self._call(self._plane.prepare)

    def apply(self, tables: Tables, pods: Iterable[str]) -> None:
        """See `DataPlane`."""
        self._call(partial(self._plane.apply, tables, pods))

    def reach(self, table: PortTable) -> Address:
        """See `DataPlane`."""
        return self._plane.reach(table)

    def clean(self) -> None:
        """See `DataPlane`."""
        self._call(self._plane.clean)

    def watch(self) -> RulesWatch | None:
        """See `DataPlane`."""
        try:
            return self._within(self._plane.watch)
        except OSError:
            return None

    def restore(self) -> None:
        """See `DataPlane`."""
        self._plane.restore()

    def is_whole(self) -> bool:
        """See `DataPlane`."""
        return self._call(self._plane.is_whole)

    def close(self) -> None:
        """See `DataPlane`."""
        self._plane.close()

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return self._within(function)
        except OSError as error:
            raise PlaneError(f"the network of the pods cannot be entered: {error}") from error
