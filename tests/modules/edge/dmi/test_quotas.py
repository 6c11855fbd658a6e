"""The rates of mappers' calls."""

from contextlib import suppress
from unittest.mock import Mock

import pytest

from beehive.testing import FakeContext
from modules.edge.dmi.counters import DmiCounters
from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.mappers import MAX_MAPPERS, MapperRow
from modules.edge.dmi.quotas import ALL_REGISTRATIONS, REGISTRATIONS, Quotas
from modules.edge.dmi.reporter import Reporter
from protos.dmi.v1beta1 import api_pb2 as dmi


def test_a_mapper_that_names_a_new_protocol_each_time_is_bounded() -> None:
    """All mappers of a node may register at once, after a start of edgecore."""
    rate, burst = ALL_REGISTRATIONS
    assert burst >= MAX_MAPPERS
    quotas = Quotas(200.0, 500)
    for number in range(burst):
        quotas.registration(f"protocol-{number}", 0.0)
    for number in range(1000):
        with pytest.raises(MapperCallRefused, match="too many registrations"):
            quotas.registration(f"other-{number}", 0.0)
    quotas.registration("other", 1.0 / rate)


@pytest.mark.parametrize("mapper", [MapperRow("flood", protocol="demo"), None])
def test_no_name_and_no_registration_gives_a_mapper_more_reports(mapper: MapperRow | None) -> None:
    """Not even refused registrations, which cost nothing."""
    quotas = Quotas(0.001, 3)
    for _ in range(3):
        quotas.report(mapper, 0.0)
    for number in range(1000):
        with suppress(MapperCallRefused):
            quotas.registration(f"protocol-{number}", 0.0)
        renamed = MapperRow(f"flood-{number}", protocol=mapper.protocol) if mapper is not None else None
        with pytest.raises(MapperCallRefused, match="too many reports"):
            quotas.report(renamed, 0.0)


def test_a_jump_of_the_wall_clock_gives_a_mapper_no_more_reports() -> None:
    module = Mock(clock=FakeContext().clock)
    reporter = Reporter(module, Quotas(0.001, 1), DmiCounters(), lambda _: None, Mock(), echo=False)
    report = dmi.ReportDeviceStatesRequest(deviceName="thermo", state="ok")
    reporter.state(report, Mock())
    module.clock.jump_wall(1e6)
    with pytest.raises(MapperCallRefused, match="too many reports"):
        reporter.state(report, Mock())


def test_refused_registrations_make_a_protocols_quota_no_larger() -> None:
    quotas = Quotas(1.0, 1)
    for _ in range(REGISTRATIONS[1]):
        quotas.registration("demo", 0.0)
    for number in range(1000):
        with suppress(MapperCallRefused):
            quotas.registration(f"protocol-{number}", 0.0)
    with pytest.raises(MapperCallRefused, match="too many registrations"):
        quotas.registration("demo", 0.5)


def test_a_mapper_that_registers_again_and_again_takes_no_others_place() -> None:
    quotas = Quotas(1.0, 1)
    for _ in range(1000):
        with suppress(MapperCallRefused):
            quotas.registration("flood", 0.0)
    for number in range(ALL_REGISTRATIONS[1] - REGISTRATIONS[1]):
        quotas.registration(f"protocol-{number}", 0.0)


def test_a_protocol_that_is_used_keeps_its_quota() -> None:
    """However many others there are: the least recently used one goes."""
    quotas, mapper = Quotas(0.001, 1), MapperRow("flood", protocol="demo")
    quotas.report(mapper, 0.0)
    for number in range(1000):
        quotas.report(MapperRow("other", protocol=f"protocol-{number}"), 0.0)
        with pytest.raises(MapperCallRefused, match="too many reports"):
            quotas.report(mapper, 0.0)
