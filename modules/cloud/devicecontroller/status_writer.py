"""Writes DeviceStatuses: of each device at most one write under way, and one a second; of all, a few at once."""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from beehive.backoff import doubled
from beehive.clock import Timer
from beehive.message import Message
from beehive.module import Module
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of
from modules.cloud.client.calls import ApiResult
from modules.cloud.devicecontroller.api import status_call
from modules.cloud.devicecontroller.devices_by_key import DevicesByKey
from modules.cloud.devicecontroller.later_values import Times, later_values
from modules.cloud.devicecontroller.reports import Report
from modules.cloud.devicecontroller.status_sizes import StatusSizes
from modules.cloud.module_calls import PERMANENT, ask, code_of

_log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
"""Seconds between two writes of a device's status."""
LONGEST_DELAY: Final = 30.0
"""Seconds between two attempts, when the API server does not answer."""
MOST_AT_WORK: Final = 4
"""Devices written together: an API server serves nodes and pods as well."""
MOST_WAITING: Final = 64
"""Messages of one device that wait for a write; the answer to another one is that it comes again later."""

Make = Callable[[ObjectKey, JsonObject | None, Report], JsonObject | None]
"""Returns the DeviceStatus of a Device from the present one and a report; None when the Device no longer exists."""
Stored = Callable[[ObjectKey, JsonObject, Report], None]
"""Takes a DeviceStatus that was written, and the report that is in it."""
Answer = Callable[[Message, int, str, Times], None]
"""Answers a node's message with a code as of HTTP, 200 for a success, a reason, and the times of later values that are
stored.
"""
_LATER: Final = "values with later times are stored; those of the report take effect with times after them"


class _Waiting(NamedTuple):
    """A message of a node that is answered after the write."""

    message: Message
    report: Report
    uid: str
    """The Device's: a later Device of its name does not get the values."""


class _Device(msgspec.Struct):
    """The writes of one device's status."""

    waiting: list[_Waiting] = []
    is_due: bool = False
    is_busy: bool = False
    not_before: float = 0.0
    """Monotonic seconds."""
    failures: int = 0
    timer: Timer | None = None


class StatusWriter:
    """A writer of the values that were reported since the last write. It reads the object first, so that changes by
    others are kept, and an update of an object that has changed meanwhile is refused.

    Args:
        module: devicecontroller.
        make: makes the object.
        known: the Devices that there are.
        sizes: of the statuses, which are bounded by node.
        answer: answers the nodes' messages when their values are stored.
        stored: told of each write.
    """

    def __init__(
        self, module: Module, make: Make, known: DevicesByKey, sizes: StatusSizes, answer: Answer, stored: Stored
    ) -> None:
        self._module = module
        self._sizes = sizes
        self._known = known
        self._make = make
        self._answer = answer
        self._stored = stored
        self._devices: dict[ObjectKey, _Device] = {}
        self._ready: deque[tuple[ObjectKey, _Device]] = deque()
        """Devices whose write is due, in order."""
        self._at_work = 0
        """Writes that are under way."""

    def report(self, key: ObjectKey, report: Report, message: Message) -> None:
        """Write a report soon, and answer the message then."""
        device = self._device(key)
        if len(device.waiting) >= MOST_WAITING:
            self._answer(message, HTTPStatus.TOO_MANY_REQUESTS, "many reports of this device wait to be stored", {})
            return
        device.waiting.append(_Waiting(message.with_content(None), report, self._uid_of(key)))
        self._due(key, device)

    def refresh(self, key: ObjectKey) -> None:
        """Write the status soon, after a change of the Device or its model; remove the status of a deleted Device."""
        self._due(key, self._device(key))

    def _device(self, key: ObjectKey) -> _Device:
        return self._devices.setdefault(key, _Device())

    def _uid_of(self, key: ObjectKey) -> str:
        device = self._known.devices.get(key)
        return "" if device is None else device.uid

    def _due(self, key: ObjectKey, device: _Device) -> None:
        device.is_due = True
        if device.is_busy or device.timer is not None:
            return
        wait = device.not_before - self._module.clock.monotonic()
        if wait > 0:
            device.timer = self._module.after(wait, partial(self._queue, key, device))
        else:
            self._queue(key, device)

    def _queue(self, key: ObjectKey, device: _Device) -> None:
        """Begin a write when it is its turn."""
        device.timer = None
        device.is_busy = True
        self._ready.append((key, device))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._ready and self._at_work < MOST_AT_WORK:
            self._at_work += 1
            key, device = self._ready.popleft()
            device.is_due = False
            self._call("get", key, partial(self._read, key, device), name=key.name)

    def _read(self, key: ObjectKey, device: _Device, result: ApiResult) -> None:
        waiting, device.waiting = device.waiting, []
        if result.object is None and code_of(result) != HTTPStatus.NOT_FOUND:
            self._finish(key, device, Report(), waiting, result)
            return
        report, uid = Report(), self._uid_of(key)
        for each in waiting:
            if each.uid == uid:
                report.add(each.report)
        live = result.object
        made = self._make(key, live, report)
        self._sizes.put(key, live)
        done = partial(self._finish, key, device, report, waiting, made=made)
        if made == live:
            done(ApiResult())
        elif made is not None and (why := self._sizes.refusal(key, made)):
            done(ApiResult(refusal={"code": HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "message": why}))
        elif made is None:
            options = {"preconditions": {"uid": uid_of(live or {})}}
            self._call("delete", key, partial(_deleted, done), name=key.name, options=options)
        elif live is None:
            self._call("create", key, partial(_created, done), body=made)
        else:
            self._call("update", key, done, name=key.name, body=made)

    def _finish(
        self,
        key: ObjectKey,
        device: _Device,
        report: Report,
        waiting: list[_Waiting],
        result: ApiResult,
        made: JsonObject | None = None,
    ) -> None:
        """Answer the messages after a write; after a temporary failure it is written again later."""
        code, reason = code_of(result), str((result.refusal or {}).get("message", ""))[:300]
        device.is_busy = False
        self._at_work -= 1
        is_over = result.refusal is None or code in PERMANENT
        device.failures = 0 if is_over else device.failures + 1
        if is_over:
            self._answer_all(waiting, code, reason, made)
            if result.refusal is None:
                self._sizes.put(key, made)
            if result.refusal is None and made is not None:
                self._stored(key, made, report)
        else:
            device.waiting = [*waiting, *device.waiting]
        if result.refusal is not None:
            level = logging.INFO if code == HTTPStatus.CONFLICT else logging.WARNING  # somebody else was faster
            _log.log(level, "the status of device %s/%s is not stored: %s", key.namespace, key.name, reason)
        delay = doubled(INTERVAL, max(0, device.failures - 1), LONGEST_DELAY)
        device.not_before = self._module.clock.monotonic() + delay
        if device.is_due or not is_over:
            self._due(key, device)
        elif key not in self._known.devices:
            self._devices.pop(key, None)
        self._begin_next()

    def _answer_all(self, waiting: list[_Waiting], code: int, reason: str, made: JsonObject | None) -> None:
        """Answer messages whose report is written, or permanently refused."""
        is_stored = not code and made is not None
        later = later_values(made or {}, [each.report for each in waiting]) if is_stored else [{} for _ in waiting]
        for each, times in zip(waiting, later, strict=True):
            if times:
                self._answer(each.message, HTTPStatus.CONFLICT, _LATER, times)
            else:
                self._answer(each.message, code or HTTPStatus.OK, reason, times)

    def _call(self, verb: str, key: ObjectKey, answered: Callable[[ApiResult], None], **fields: Any) -> None:
        ask(self._module, status_call(verb, key.namespace, **fields), answered)


def _deleted(done: Callable[[ApiResult], None], result: ApiResult) -> None:
    """Take the answer to a deletion: a cluster deletes a DeviceStatus with its Device, perhaps sooner."""
    done(ApiResult() if code_of(result) == HTTPStatus.NOT_FOUND else result)


def _created(done: Callable[[ApiResult], None], result: ApiResult) -> None:
    """Take the answer to a creation: 404 means that there is no such kind or namespace, which lasts."""
    if code_of(result) == HTTPStatus.NOT_FOUND:
        why = "the API server has no DeviceStatuses (deploy/devices.yaml defines them), or not the namespace"
        result = ApiResult(refusal={"code": HTTPStatus.UNPROCESSABLE_ENTITY, "message": why})
    done(result)
