"""The review of all DeviceStatuses, to find wrong ones."""

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from beehive.module import Module
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.client.calls import ApiResult
from modules.cloud.devicecontroller.api import status_call
from modules.cloud.devicecontroller.devices_by_key import DevicesByKey, device_key
from modules.cloud.devicecontroller.reports import Report
from modules.cloud.devicecontroller.status_sizes import StatusSizes
from modules.cloud.devicecontroller.status_writer import Make
from modules.cloud.devicecontroller.statuses import is_of_a_device
from modules.cloud.module_calls import ask, code_of

_log = logging.getLogger(__name__)

_PAGE: Final = 500
"""Objects in a part of the list."""
_MOST_PAGES: Final = 4000
_AGAIN: Final = 30.0
"""Seconds until the list is asked for again when it has failed."""


class StatusReview:
    """The single list of the DeviceStatuses, in parts: a read of each of them would cost the API server much more. It
    is done when devicecontroller begins, and when other cloudcores have come or gone.

    Args:
        module: devicecontroller.
        make: makes the DeviceStatus of a Device.
        known: the Devices that there are.
        sizes: of the statuses.
        refresh: has the DeviceStatus of a Device written.
    """

    def __init__(
        self,
        module: Module,
        make: Make,
        known: DevicesByKey,
        sizes: StatusSizes,
        refresh: Callable[[ObjectKey], None],
    ) -> None:
        self._module = module
        self._make = make
        self._known = known
        self._sizes = sizes
        self._refresh = refresh
        self._number = 0
        """Number of the last review; an earlier review under way is given up."""

    def start(self) -> None:
        """Begin a review."""
        self._number += 1
        self._page("", set(), self._number, 0)

    def _page(self, token: str, seen: set[ObjectKey], number: int, pages: int) -> None:
        options = {"limit": _PAGE} | ({"continue": token} if token else {})

        def answered(result: ApiResult) -> None:
            if number != self._number:
                return
            if result.object is None:
                self._failed(result)
                return
            seen.update(self._device_keys(result.object))
            token = (result.object.get("metadata") or {}).get("continue")
            if token and pages < _MOST_PAGES:
                self._page(str(token), seen, number, pages + 1)
            else:
                for key in [each for each in self._known.devices if each not in seen]:
                    self._refresh(key)

        ask(self._module, status_call("list", options=options), answered)

    def _device_keys(self, page: JsonObject) -> Iterable[ObjectKey]:
        for status in page.get("items") or ():
            metadata: Any = status["metadata"]
            key = device_key(str(metadata.get("namespace") or ""), str(metadata["name"]))
            made = self._make(key, status, Report())
            if made is None and not is_of_a_device(status):
                continue
            self._sizes.put(key, status)
            if made != status:
                self._refresh(key)
            yield key

    def _failed(self, result: ApiResult) -> None:
        why = (result.refusal or {}).get("message")
        if code_of(result) == HTTPStatus.NOT_FOUND:
            _log.warning("values that nodes report are not stored, as there are no DeviceStatuses: %s", why)
            return
        _log.info("DeviceStatuses cannot be listed yet: %s", why)
        number = self._number
        self._module.after(_AGAIN, lambda: self.start() if number == self._number else None)
