"""The registered storage drivers of this node, and the node's annotations and labels for them."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from beehive.nesting import read_json
from beehive.on_failure import on_failure
from edged.errors import PluginError
from edged.plugins.watcher import Plugin
from edged.sync_events import PluginsChanged, SyncEvents
from edged.volumes.csi.model import Driver
from modules.apimachinery.csi_drivers import DRIVERS_ANNOTATION, NODE_ID_ANNOTATION, DriverNote

if TYPE_CHECKING:
    from edged.volumes.csi.client import CsiClient


_MAJOR_VERSION = "1."


class CsiDrivers:
    """The registered storage drivers. Registration and queries run on different threads: each change replaces the
    mappings.

    Args:
        changes: take each change.
    """

    def __init__(self, changes: SyncEvents[PluginsChanged] | None = None) -> None:
        self._changes = changes
        self._drivers: Mapping[str, Driver] = {}
        self._clients: Mapping[str, CsiClient] = {}
        self._gone: frozenset[str] = frozenset()

    def register(self, plugin: Plugin) -> None:
        """Add a driver, with its id of this node and its capabilities. Raises PluginError."""
        if not any(version.startswith(_MAJOR_VERSION) for version in plugin.versions):
            versions = ", ".join(plugin.versions) or "none"
            raise PluginError("register a CSI driver", plugin.name, f"of its versions ({versions}) 1.x is wanted")
        from edged.volumes.csi.client import CsiClient  # noqa: PLC0415 - see there

        client = CsiClient(plugin.endpoint)
        with on_failure(client.close):
            info, capabilities = client.node_info(), client.node_capabilities()
        before = self._clients.get(plugin.name)
        driver = Driver(plugin.name, plugin.endpoint, info.node_id, info.topology, capabilities, info.most_volumes)
        self._clients = {**self._clients, plugin.name: client}
        self._drivers = {**self._drivers, plugin.name: driver}
        if before is not None:
            before.close()
        self._changed()

    def deregister(self, plugin: Plugin) -> None:
        """Remove a driver, unless another one has registered under its name on another socket meanwhile."""
        known = self._drivers.get(plugin.name)
        if known is None or known.endpoint != plugin.endpoint:
            return
        client = self._clients[plugin.name]
        self._drivers = {name: driver for name, driver in self._drivers.items() if name != plugin.name}
        self._clients = {name: each for name, each in self._clients.items() if name != plugin.name}
        self._gone |= {plugin.name}
        client.close()
        self._changed()

    def _changed(self) -> None:
        if self._changes is not None:
            self._changes.post(PluginsChanged())

    def get(self, name: str) -> "tuple[Driver, CsiClient]":
        """Return a driver and its client. Raises PluginError, which passes when the driver registers."""
        driver, client = self._drivers.get(name), self._clients.get(name)
        if driver is None or client is None:
            raise PluginError(f"driver name {name} not found in the list of registered CSI drivers", retryable=True)
        return driver, client

    def names(self) -> list[str]:
        """Return the names of the registered drivers."""
        return sorted(self._drivers)

    def close(self) -> None:
        """Close all connections: calls under way end."""
        for client in self._clients.values():
            client.close()

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the node's annotations `known`, with the drivers' ids of the node, and their notes."""
        drivers = self._drivers.values()
        notes = {d.name: to_builtins(DriverNote(tuple(sorted(d.topology)), d.most_volumes)) for d in drivers}
        with_ids = with_drivers(known, NODE_ID_ANNOTATION, {d.name: d.node_id for d in drivers}, self._gone)
        return with_drivers(with_ids, DRIVERS_ANNOTATION, notes, self._gone)

    def labels(self) -> dict[str, str]:
        """Return the node's labels for the topology of the drivers."""
        return {key: value for driver in self._drivers.values() for key, value in driver.topology.items()}


def with_drivers(
    annotations: Mapping[str, str], name: str, of_drivers: Mapping[str, Any], gone: frozenset[str]
) -> dict[str, str]:
    """Return a node's annotations with the drivers' values entered in one, and removed drivers' values deleted.

    Drivers that did not register with this agent stay: they may only be slower to start.
    """
    others = {key: value for key, value in annotations.items() if key != name}
    known = {**_object_in(annotations.get(name, "{}")), **of_drivers}
    left = {each: known[each] for each in sorted(known) if known[each] and (each not in gone or each in of_drivers)}
    if not left:
        return others
    return {**others, name: json.dumps(left, separators=(",", ":"))}


def _object_in(text: str) -> dict[str, Any]:
    try:
        known = read_json(text)
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}
