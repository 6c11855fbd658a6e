"""Which part of a log a request wants."""

import pytest

from modules.apimachinery.pods.log_options import InvalidLogOptionsError, LogOptionError, LogOptions, log_options
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
    ("query", "why"),
    [
        ("tailLines=many", 'strconv.ParseInt: parsing "many": invalid syntax'),
        ("tailLines=", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("tailLines=x&tailLines=1", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("limitBytes=" + "9" * 20, 'strconv.ParseInt: parsing "99999999999999999999": value out of range'),
        ("sinceSeconds=1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        (
            "sinceTime=yesterday",
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
    ],
)
def test_what_cannot_be_read_is_told_in_the_words_of_a_kube_apiserver(query: str, why: str) -> None:
    """The words were recorded at kube-apiserver 1.32.13; those of a time are its first half."""
    with pytest.raises(LogOptionError) as refused:
        options(query)
    assert refused.value.why == why


_TOGETHER = "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=1&sinceTime=2026-11-20T05:59:00Z", _TOGETHER),
        (
            "limitBytes=0&tailLines=-1&sinceSeconds=0",
            "[tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: "
            "must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]",
        ),
        ("stream=Stdin", 'stream: Unsupported value: "Stdin": supported values: "All", "Stderr", "Stdout"'),
        ("stream=Stdout&tailLines=1", "tailLines: Forbidden: `tailLines` and specific `stream` are mutually exclusive"),
    ],
)
def test_invalid_values_are_told_together_in_the_words_of_a_kube_apiserver(query: str, why: str) -> None:
    """The words were recorded at kube-apiserver 1.32.13, but those of `stream`, which it refuses by default."""
    with pytest.raises(InvalidLogOptionsError) as refused:
        options(query)
    assert refused.value.why.startswith(why)
