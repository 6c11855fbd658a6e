"""Listens to one plug-in for as long as it is there: what it says of its devices, and that it has gone."""

import logging
from typing import NamedTuple

from beehive import Actor
from edged.devices.contract import DevicePlugin
from edged.devices.manager import DeviceManager
from edged.plugins.errors import PluginError

_log = logging.getLogger(__name__)


class _Read(NamedTuple):
    """Begin to listen."""


class DeviceReader(Actor):
    """See the module's docstring. It blocks until the plug-in goes, or somebody closes the connection."""

    def __init__(self, resource: str, plugin: DevicePlugin, manager: DeviceManager) -> None:
        super().__init__()
        self._resource = resource
        self._plugin = plugin
        self._manager = manager

    def on_start(self) -> None:
        """Listen as soon as it runs."""
        self.actor_ref.tell(_Read())

    def on_receive(self, message: object) -> None:
        """Listen to the end; what a plug-in brings to light must not end edged."""
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
