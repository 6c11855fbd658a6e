"""Nodes that send their events, as a node does by default: what must hold holds, and the cloud has the events."""

from collections.abc import Iterator
from unittest import mock

import pytest

from metamanager.module import MetaSettings
from modules.lab.simulate import node as simulated
from modules.lab.simulate.draw import FaultProfile
from modules.lab.simulate.run import run_plan
from modules.lab.simulate.seeds import SeedSettings
from tests.support.slow import one_in


@pytest.fixture(autouse=True)
def events_are_sent() -> Iterator[None]:
    """As `reportEvent: true` makes them."""
    with mock.patch.object(simulated, "MetaSettings", _settings):
        yield


def _settings(data_source: str, *, node: str, **_fields: object) -> MetaSettings:
    return MetaSettings(data_source, report_events=True, node=node)


@pytest.mark.parametrize(
    "profile", one_in(len(FaultProfile), reversed(FaultProfile)), ids=lambda profile: profile.value
)
def test_what_must_hold_holds_with_events(profile: FaultProfile) -> None:
    result = run_plan(SeedSettings(profile=profile).plan(1), keep_log=True)
    assert result.violation is None, str(result.violation)
    assert any("insert default/event/" in str(line) for line in result.log)
