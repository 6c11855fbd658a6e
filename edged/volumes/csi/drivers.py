"""The storage drivers that have registered on this node, and what the cloud is told of them."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from edged.plugins.errors import PluginError
from edged.plugins.watcher import Plugin
from edged.volumes.csi.model import Driver

if TYPE_CHECKING:
    from edged.volumes.csi.client import CsiClient


NODE_ID_ANNOTATION = "csi.volume.kubernetes.io/nodeid"
"""Of the node: JSON, what each driver calls it. Attachers and provisioners read it (kubelet's nodeinfomanager)."""
_MAJOR_VERSION = "1."


class CsiDrivers:
    """See the module's docstring. Registered and asked on different threads: each change replaces what is known.

    Args:
        changed: called after each change, on the watcher's thread.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._drivers: Mapping[str, Driver] = {}
        self._clients: Mapping[str, CsiClient] = {}
        self._gone: frozenset[str] = frozenset()

    def register(self, plugin: Plugin) -> None:
        """A driver is there: ask it what it calls this node and what it can do. Raises PluginError."""
        if not any(version.startswith(_MAJOR_VERSION) for version in plugin.versions):
            versions = ", ".join(plugin.versions) or "none"
            raise PluginError("register a CSI driver", plugin.name, f"of its versions ({versions}) 1.x is wanted")
        from edged.volumes.csi.client import CsiClient  # noqa: PLC0415 - see there

        client = CsiClient(plugin.endpoint)
        try:
            info, capabilities = client.node_info(), client.node_capabilities()
        except PluginError:
            client.close()
            raise
        before = self._clients.get(plugin.name)
        driver = Driver(plugin.name, plugin.endpoint, info.node_id, info.topology, capabilities)
        self._clients = {**self._clients, plugin.name: client}
        self._drivers = {**self._drivers, plugin.name: driver}
        self._gone -= {plugin.name}
        if before is not None:
            before.close()
        self._changed()

    def deregister(self, plugin: Plugin) -> None:
        """A driver is gone. One that has registered under its name on another socket meanwhile stays."""
        known = self._drivers.get(plugin.name)
        if known is None or known.endpoint != plugin.endpoint:
            return
        client = self._clients[plugin.name]
        self._drivers = {name: driver for name, driver in self._drivers.items() if name != plugin.name}
        self._clients = {name: each for name, each in self._clients.items() if name != plugin.name}
        self._gone |= {plugin.name}
        client.close()
        self._changed()

    def get(self, name: str) -> "tuple[Driver, CsiClient]":
        """A driver and its client. Raises PluginError, which passes when the driver registers."""
        driver, client = self._drivers.get(name), self._clients.get(name)
        if driver is None or client is None:
            raise PluginError(f"driver name {name} not found in the list of registered CSI drivers", retryable=True)
        return driver, client

    def names(self) -> list[str]:
        """Of the drivers that are there."""
        return sorted(self._drivers)

    def close(self) -> None:
        """Let go of all drivers: calls that are under way end."""
        for client in self._clients.values():
            client.close()

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """The node's annotations with what drivers call the node, given those that it has."""
        return with_node_ids(known, {d.name: d.node_id for d in self._drivers.values()}, self._gone)

    def labels(self) -> dict[str, str]:
        """The node's labels that say from where drivers reach their volumes."""
        return {key: value for driver in self._drivers.values() for key, value in driver.topology.items()}


def with_node_ids(annotations: Mapping[str, str], ids: Mapping[str, str], gone: frozenset[str]) -> dict[str, str]:
    """Annotations of a node in which the drivers' node ids are entered, and those of drivers that are gone are not.

    Drivers that did not register with this agent stay: they may only be slower than it.
    """
    others = {key: value for key, value in annotations.items() if key != NODE_ID_ANNOTATION}
    known = {**_node_ids(annotations), **ids}
    left = {name: known[name] for name in sorted(known) if name not in gone or name in ids}
    if not left:
        return others
    return {**others, NODE_ID_ANNOTATION: json.dumps(left, separators=(",", ":"))}


def _node_ids(annotations: Mapping[str, str]) -> dict[str, str]:
    try:
        known = json.loads(annotations.get(NODE_ID_ANNOTATION, "{}"))
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {}
