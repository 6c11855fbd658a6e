"""The beginning of devicecontroller: the kinds of devices are watched."""

import logging
from collections.abc import Callable
from http import HTTPStatus

from beehive.module import Module
from modules.apimachinery.kinds import ObjectKey, key_of
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.kind_watch import KindWatch
from modules.cloud.storage.watch_history import ObjectChanged

_log = logging.getLogger(__name__)


class Loading:
    """Watches DeviceModels, then Devices, and notes which there are.

    Args:
        module: devicecontroller.
        take: takes over an object that there is.
        done: called when all objects are known.
    """

    def __init__(self, module: Module, *, take: Callable[[ObjectChanged], None], done: Callable[[], None]) -> None:
        kinds = (DEVICE_MODEL, DEVICE)
        self._watch = KindWatch(module, kinds, self._taken, self._ended, self._failed)
        self._take = take
        self._done = done
        self._told = ""
        """The last trouble in the log."""
        self.seen: set[ObjectKey] = set()
        """The objects that there are, and have been, since it has begun."""
        self.are_absent = False
        """Whether the API server has no such kinds: then there are no devices."""

    @property
    def kinds(self) -> set[str]:
        """The kinds whose objects are all known."""
        return self._watch.loaded

    def start(self) -> None:
        """Begin, perhaps once more: a restart of edgecontroller ends its watches."""
        self.seen.clear()
        self._watch.start()

    def _taken(self, changed: ObjectChanged) -> None:
        self.seen.add(key_of(changed.object))
        self._take(changed)

    def _ended(self) -> None:
        self.are_absent = False
        self._done()

    def _failed(self, why: str, code: int) -> None:
        self.seen.clear()
        self.are_absent = code == HTTPStatus.NOT_FOUND
        is_new, self._told = why != self._told, why
        is_new = is_new and code != HTTPStatus.SERVICE_UNAVAILABLE  # the start of a list that is not complete yet
        level = logging.DEBUG if not is_new else logging.INFO if code else logging.WARNING
        _log.log(level, "devices are not served yet: %s", why)
