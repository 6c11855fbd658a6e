"""Which part of a log a request wants."""

import pytest

from modules.apimachinery.pods.log_options import LogOptionError, LogOptions, log_options
from modules.apimachinery.types import Nanoseconds
from modules.apimachinery.types.times import SECOND, parse_time
from tests.beehive.http.requests import parse

NOW = parse_time("2026-11-20T06:00:00Z")


def options(query: str) -> LogOptions:
    return log_options(parse(f"GET /a?{query} HTTP/1.1\r\nHost: a\r\n\r\n".encode()), NOW)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", LogOptions()),
        ("follow=true&timestamps=true&previous=true", LogOptions(follow=True, timestamps=True, previous=True)),
        ("tailLines=0&limitBytes=10", LogOptions(tail=0, limit=10)),
        ("sinceSeconds=60", LogOptions(since=Nanoseconds(NOW - 60 * SECOND))),
        ("sinceTime=2026-11-20T05:59:00%2B00:00", LogOptions(since=Nanoseconds(NOW - 60 * SECOND))),
        ("stream=Stderr", LogOptions(streams=("stderr",))),
        ("stream=All&tailLines=3", LogOptions(tail=3)),
        ("follow=0", LogOptions()),
    ],
)
def test_a_query_selects_the_lines(query: str, wanted: LogOptions) -> None:
    assert options(query) == wanted


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("tailLines=-1", "tailLines"),
        ("tailLines=many", "tailLines"),
        ("tailLines=" + "9" * 30, "tailLines"),
        ("limitBytes=0", "limitBytes"),
        ("sinceSeconds=0", "sinceSeconds"),
        ("sinceTime=yesterday", "sinceTime"),
        ("sinceSeconds=1&sinceTime=2026-11-20T05:59:00Z", "sinceTime"),
        ("stream=Stdin", "stream"),
        ("stream=Stdout&tailLines=1", "tailLines"),
    ],
)
def test_an_invalid_option_is_named(query: str, name: str) -> None:
    with pytest.raises(LogOptionError, match=name):
        options(query)
