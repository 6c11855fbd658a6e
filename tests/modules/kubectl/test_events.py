"""`events` against a real cloudcore."""

from typing import Any

import pytest

from modules.kubectl.events import event_row, in_order
from tests.modules.kubectl.cloud import Cloud, event, pod

NOW = 1_795_139_690.0
OLD, MIDDLE, NEW = "2026-11-20T01:00:00Z", "2026-11-20T01:30:00Z", "2026-11-20T01:54:00Z"


def test_the_newest_is_last(cloud: Cloud) -> None:
    cloud.make(event("b", NEW), event("a", OLD, kind="Warning"), event("c", MIDDLE, "db"))
    done = cloud.run("events")
    assert done.lines[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [row[-1] for row in done.rows[1:]] == ["a", "c", "b"]
    assert [row[-1] for row in cloud.run("events", "--for", "pod/web", "--no-headers").rows] == ["a", "b"]
    assert [row[-1] for row in cloud.run("events", "--types=Warning", "--no-headers").rows] == ["a"]
    assert cloud.run("events", "-A").rows[1][0] == "default"
    assert cloud.run("events", "-o", "name").lines == ["event/a", "event/c", "event/b"]
    assert cloud.run("events", "-o", "json").object["kind"] == "List"


def test_nothing_there_is_reported(cloud: Cloud) -> None:
    assert cloud.run("events") == (0, "", "No events found in default namespace.\n")
    assert cloud.run("events", "-A").err == "No events found in any namespace.\n"
    cloud.make(pod())
    assert cloud.run("events", "--for=po/web").err == "No events found in default namespace.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--types=Odd",), "valid --types are Normal or Warning"),
        (("--for=web",), "resource/name form"),
        (("--for=podz/web",), "podz"),
    ],
)
def test_refusals_and_their_reasons(cloud: Cloud, words: tuple[str, ...], said: str) -> None:
    done = cloud.run("events", *words)
    assert done.status == 1
    assert said in done.err


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({"lastTimestamp": NEW}, "50s"),
        ({"lastTimestamp": NEW, "firstTimestamp": OLD, "count": 3}, "50s (x3 over 54m)"),
        ({"eventTime": MIDDLE, "series": {"count": 2, "lastObservedTime": NEW}}, "50s (x2 over 24m)"),
        ({"eventTime": NEW}, "50s"),
        ({"firstTimestamp": NEW, "lastTimestamp": None}, "50s"),
        ({}, "<unknown>"),
    ],
)
def test_when_an_event_was_seen(fields: dict[str, Any], seen: str) -> None:
    assert event_row({"involvedObject": {"kind": "Pod", "name": "web"}, **fields}, NOW)[0] == seen


def test_events_without_a_time_come_first() -> None:
    names = [each["metadata"]["name"] for each in in_order([event("a", NEW), event("b", "never"), event("c", OLD)])]
    assert names == ["b", "c", "a"]
