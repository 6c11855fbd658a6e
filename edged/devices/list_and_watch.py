"""The actor that reads one plug-in's ListAndWatch."""

import logging
from typing import NamedTuple

from beehive import Actor
from edged.devices.contract import DevicePlugin
from edged.devices.manager import DeviceManager
from edged.plugins.errors import PluginError

_log = logging.getLogger(__name__)


class _Read(NamedTuple):
    """The request to begin."""


class DeviceReader(Actor):
    """Reads the reports of one plug-in until it disconnects, or its connection is closed; blocks meanwhile."""

    def __init__(self, resource: str, plugin: DevicePlugin, manager: DeviceManager) -> None:
        super().__init__()
        self._resource = resource
        self._plugin = plugin
        self._manager = manager

    def on_start(self) -> None:
        """Begin at once."""
        self.actor_ref.tell(_Read())

    def on_receive(self, message: object) -> None:
        """Read to the end; no error of a plug-in ends edged."""
        if not isinstance(message, _Read):
            return
        try:
            for devices in self._plugin.watch():
                self._manager.listed(self._resource, self._plugin, devices)
        except PluginError as error:
            _log.debug("device plug-in of %s: %s", self._resource, error)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("device plug-in of %s failed in a way nobody foresaw", self._resource)
        self._manager.disconnect(self._resource, self._plugin)
        self.stop()
