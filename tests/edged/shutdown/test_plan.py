"""The order of pods' ends at the machine's shutdown."""

import pytest

from edged.settings import Group
from edged.shutdown.plan import groups, kill_options, plan
from modules.apimachinery.types import Pod
from tests.edged.pods.builders import a_pod

SYSTEM = 2_000_000_000


@pytest.mark.parametrize(
    ("total", "critical", "by_priority", "made"),
    [
        (0, 0, {}, ()),
        (30, 10, {}, (Group(0, 20), Group(SYSTEM, 10))),
        (30, 0, {}, (Group(0, 30), Group(SYSTEM, 0))),
        (1, 0, {}, (Group(0, 1), Group(SYSTEM, 0))),
        (0, 0, {1000: 10, 0: 60}, (Group(0, 60), Group(1000, 10))),
        (30, 10, {7: 5}, (Group(7, 5),)),
    ],
)
def test_groups_of_a_configuration(
    total: int, critical: int, by_priority: dict[int, int], made: tuple[Group, ...]
) -> None:
    assert groups(total, critical, by_priority) == made


def named(name: str, priority: int | None = None) -> Pod:
    return a_pod(meta={"name": name, "uid": name}, priority=priority)


def test_each_ends_with_the_highest_group_that_it_reaches_and_empty_ones_are_left_out() -> None:
    pods = [named("system", SYSTEM + 1), named("plain"), named("below", -5), named("middle", 999), named("least", 1)]
    known = (Group(0, 60), Group(1, 40), Group(500, 30), Group(1000, 20), Group(SYSTEM, 10))
    steps = [([pod.metadata.name for pod in step.pods], step.seconds) for step in plan(pods, known)]
    assert steps == [(["plain", "below"], 60), (["least"], 40), (["middle"], 30), (["system"], 10)]
    assert plan([], known) == []


@pytest.mark.parametrize(("own", "seconds", "grace"), [(5, 20, 5), (30, 20, 20), (None, 20, 20), (30, 0, 0)])
def test_a_pod_gets_its_own_time_or_its_groups_when_that_is_less(own: int | None, seconds: int, grace: int) -> None:
    found = kill_options(a_pod(termination_grace_period_seconds=own), seconds)
    assert (found.reason, found.grace_period, found.disruption) == ("Terminated", grace, True)
    assert found.message == "Pod was terminated in response to imminent node shutdown."
