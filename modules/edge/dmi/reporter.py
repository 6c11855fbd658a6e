"""Reports of mappers on their way to devicetwin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from beehive import Group, Message, Module, ModuleName, Operation, Source
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.runtime import Future
from modules.edge.dmi import reports
from modules.edge.dmi.counters import STORED, DmiCounters
from modules.edge.dmi.errors import MapperCallRefused, RefusalStatus
from modules.edge.dmi.mappers import MapperRow
from modules.edge.dmi.quotas import Quotas
from protos.dmi.v1beta1 import api_pb2 as dmi

REPORT_SECONDS: Final = 30.0
"""Seconds for devicetwin to store a report; the mapper is refused earlier, by its own deadline."""


class _Report(NamedTuple):
    device: str
    mapper: str
    action: str
    content: dict[str, Any]
    answer: Any


class Reporter:
    """A receiver of reports, within the quota of their mapper, which answers each when devicetwin has stored it.

    Args:
        module: dmi.
        quotas: of mappers.
        counters: of reports.
        mapper_of: returns the mapper of a device, None without one.
        stored: called with the device and the state of each stored report, "" in a report of values; and with the
            device's state if it is unknown, else "".
        echo: see `reports.twins_update`.
    """

    def __init__(
        self,
        module: Module,
        quotas: Quotas,
        counters: DmiCounters,
        mapper_of: Callable[[str], MapperRow | None],
        stored: Callable[[str, str, str], None],
        *,
        echo: bool,
    ) -> None:
        self._module = module
        self._quotas = quotas
        self._counters = counters
        self._mapper_of = mapper_of
        self._stored = stored
        self._echo = echo

    def twins(self, request: dmi.ReportDeviceStatusRequest, future: Future[Any]) -> None:
        """Take a report of values. Raises MapperCallRefused."""
        device, mapper = self._admitted(request)
        content = reports.twins_update(request, self._module.clock.now_ms(), echo=self._echo)
        answer = dmi.ReportDeviceStatusResponse()
        self._send(_Report(device, mapper, "twin/update", content, answer), future)

    def state(self, request: dmi.ReportDeviceStatesRequest, future: Future[Any]) -> None:
        """Take a report of a state. Raises MapperCallRefused."""
        content = reports.state_update(request, self._module.clock.now_ms())
        device, mapper = self._admitted(request)
        answer = dmi.ReportDeviceStatesResponse()
        self._send(_Report(device, mapper, "state/update", content, answer), future)

    def refusal(self, refused: reports.DeviceRefusal, future: Future[Any]) -> str:
        """Take a report that a mapper does not take a device, and return the device. Raises MapperCallRefused."""
        device, _ = self._admitted(refused.request)
        future.set(dmi.ReportDeviceStatesResponse())
        return device

    def set_state(self, device: str, state: str, refusal: str = "") -> None:
        """Set the state of a device whose mapper does not report it.

        Args:
            device: `namespace/name`.
            state: the state.
            refusal: why its mapper does not take it; empty if it does.
        """
        content: dict[str, Any] = {"event_id": "", "timestamp": self._module.clock.now_ms(), "state": state}
        content |= {"refusal": refusal} if refusal else {}
        message = self._message(device, "state/update", content)
        self._module.request(ModuleName.DEVICETWIN, message, REPORT_SECONDS, lambda _result: None)

    def check_state(self, device: str) -> None:
        """Look at the stored state of a device whose mapper is there: it may be unknown from before."""

        def answered(result: Message | BeehiveError) -> None:
            self._stored(device, "", "" if isinstance(result, BeehiveError) else _twin_answer(result).state)

        content = {"event_id": "", "timestamp": self._module.clock.now_ms()}
        self._module.request(
            ModuleName.DEVICETWIN, self._message(device, "state/get", content), REPORT_SECONDS, answered
        )

    def refuse(self, future: Future[Any], refused: MapperCallRefused, mapper: str = "") -> None:
        """Refuse a call of a mapper, and count it."""
        self._counters.count(mapper, refused.refusal.name)
        future.fail(refused)

    def _admitted(self, request: dmi.ReportDeviceStatusRequest | dmi.ReportDeviceStatesRequest) -> tuple[str, str]:
        """Return device and mapper of a report."""
        device = reports.device_of(request)
        mapper = self._mapper_of(device)
        self._quotas.report(mapper, self._module.clock.monotonic())
        return device, mapper.name if mapper is not None else ""

    def _send(self, report: _Report, future: Future[Any]) -> None:
        message = self._message(report.device, report.action, report.content)
        self._module.request(
            ModuleName.DEVICETWIN, message, REPORT_SECONDS, lambda result: self._answered(report, future, result)
        )

    def _message(self, device: str, action: str, content: dict[str, Any]) -> Message:
        text = msgspec.json.encode(content).decode()
        resource = reports.resource_for(device, action)
        return self._module.message(resource, Operation.RESPONSE, text, source=Source.BUS, group=Group.USER)

    def _answered(self, report: _Report, future: Future[Any], result: Message | BeehiveError) -> None:
        answer = reports.TwinAnswer()
        if isinstance(result, BeehiveError) or result.route.operation == Operation.ERROR:
            why = str(result) if isinstance(result, BeehiveError) else _text(result)
            refused: MapperCallRefused | None = MapperCallRefused(
                RefusalStatus.UNAVAILABLE, f"the report is not stored: {why}"
            )
        else:
            answer = _twin_answer(result)
            refused = reports.refused_by_twin(answer)
        if refused is not None:
            self.refuse(future, refused, report.mapper)
            return
        self._counters.count(report.mapper, STORED)
        self._stored(report.device, report.content.get("state", ""), answer.state)
        future.set(report.answer)


def _twin_answer(message: Message) -> reports.TwinAnswer:
    return reports.twin_answer(decode_json(message.content_raw(), Any))


def _text(message: Message) -> str:
    return message.content_bytes().decode(errors="replace")[:300]
