"""What the reflector does with what no API server should send: no JSON, no names, too many bytes."""

import json

import pytest

from modules.cloud.client.http import collection_response
from modules.cloud.client.reflector import reflector
from modules.cloud.client.reflector.effects import CancelRequest, Refused, Retrying, Synced
from tests.modules.cloud.client.reflections import Reflection, event, page

A1, A2, B1 = ("a", "ua", "1"), ("a", "ua", "2"), ("b", "ub", "1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        page("0"),
        page(""),
        page("7", following="x" * 20_000),
        b'{"metadata":{"resourceVersion":"7"},"items":{}}',
        b'{"metadata":{"resourceVersion":"7"},"items":[' + b"[" * 100_000,
    ],
    ids=range(9),
)
def test_other_answers_than_a_list_are_asked_for_again(body: bytes) -> None:
    """After a delay, without a change."""
    reflection = Reflection()
    reflection.answer(body)
    assert reflection.of(Retrying)[0].why.startswith("cannot read a list of the API server")
    assert reflection.index.log == []
    reflection.wake()
    reflection.synced("7", A1)


@pytest.mark.parametrize(
    "line", [b"x", b"[]", b'{"type":"ADDED"}', b'{"type":1,"object":{}}', b"\xff\xfe"], ids=range(5)
)
def test_other_lines_than_events_lead_to_a_list(line: bytes) -> None:
    """The events before it count."""
    reflection = Reflection().synced("1", A1)
    reflection.data(event("MODIFIED", A2) + line + b"\n" + event("ADDED", B1))
    assert reflection.index.log[1:] == ["Modified a ua 2"]
    assert len(reflection.of(CancelRequest)) == 1
    reflection.wake()
    assert "watch" not in reflection.path


def test_entries_without_a_name_are_dropped_and_counted() -> None:
    """The others count; so do the events around one."""
    reflection = Reflection()
    wrong = [{}, {"metadata": None}, {"metadata": {"name": ""}}, {"metadata": {"name": 5}}, 7, None, {"metadata": {}}]
    good = json.loads(page("7", A1))["items"]
    body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": [*wrong, *good]}).encode()
    reflection.answer(body.replace(b"]}", b',{"metadata":{"name":"\xff"}}]}'))
    assert (reflection.index.log, reflection.reflector.dropped) == (["Added a ua 1"], 8)
    reflection.head()
    reflection.data(b'{"type":"ADDED","object":{}}\n\n{"type":"NEW","object":{}}\n', event("MODIFIED", A2))
    assert (reflection.index.log[1:], reflection.reflector.dropped) == (["Modified a ua 2"], 10)


def test_pages_and_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger is cancelled while it comes, and listed after a delay."""
    monkeypatch.setattr(collection_response, "MAX_PAGE", 1000)
    monkeypatch.setattr(collection_response, "MAX_LINE", 1000)
    reflection = Reflection()
    reflection.head()
    reflection.data(b" " * 900)
    reflection.data(b" " * 101)
    assert (len(reflection.of(CancelRequest)), len(reflection.of(Retrying))) == (1, 1)
    reflection.wake()
    reflection.synced("1", A1)
    reflection.data(event("MODIFIED", A2) + b"x" * 600)
    assert reflection.of(CancelRequest) == []
    reflection.data(b"x" * 401)
    assert len(reflection.of(CancelRequest)) == 1
    reflection.wake()
    assert "watch" not in reflection.path


def test_a_long_refusal_is_read_in_part() -> None:
    """Its words are cut, and the kind is asked for slowly."""
    reflection = Reflection()
    reflection.head(403)
    for _ in range(100):
        reflection.data(b"x" * 10_000)
    reflection.end()
    assert len(reflection.of(Refused)[0].message) < 300


def test_a_refusal_that_is_cut_is_a_refusal() -> None:
    """The status is known."""
    reflection = Reflection()
    reflection.head(403)
    reflection.error()
    assert reflection.of(Refused)[0].status == 403


def test_the_pages_of_a_list_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose tokens lead to page after page ends no list."""
    monkeypatch.setattr(reflector, "MAX_PAGES", 3)
    reflection = Reflection()
    for _ in range(3):
        reflection.answer(page("7", A1, following="t"))
    assert "more than 3 pages" in reflection.of(Retrying)[0].why
    reflection.wake()
    for following in ("t", "t", ""):  # the pages of the list before do not count
        reflection.answer(page("7", A1, following=following))
    assert reflection.of(Synced) == [Synced("7")]
