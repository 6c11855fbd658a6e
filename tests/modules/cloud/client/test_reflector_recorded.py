"""The reflector takes the recorded responses of a real kube-apiserver 1.32, wherever their bytes are cut."""

import json
import random
from functools import cache
from typing import Any

import pytest

from modules.apimachinery.kinds import kind_named
from modules.cloud.client.reflector.effects import Refused, Retrying, StartRequest, Synced
from modules.cloud.client.reflector.reflector import SILENCE
from modules.cloud.client.reflector.selection import Selection
from tests.interop.kubernetes_forms import FILE
from tests.modules.cloud.client.reflections import Reflection

PAGE_ONE, PAGE_TWO, ALL_PODS, EXPIRED = 51, 52, 60, 119
NO_RIGHT, NO_PATH, NO_KIND, BAD_VERSION, FUTURE_LIST, TOO_OLD_LIST = 88, 90, 91, 103, 63, 121
ENDING, OF_NODES, OF_PODS, SILENT, BOOKMARKS, REFUSED_STREAM, TOO_OLD = 100, 101, 104, 99, 118, 97, 122
RECORDED_AFTER_225 = ["Added ps 228", "Modified q0 229", "Deleted q0 230"]


@cache
def _recording() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _response(reflection: Reflection, number: int) -> None:
    """Hand in a recorded response as a whole."""
    one = _recording()[number]
    body = one["response"]
    text = body.get("_text")
    headers = {name.lower().replace("-", "_"): value for name, value in (one["headers"] or {}).items()}
    reflection.answer(_bytes(body) if text is None else text.encode(), one["status"], **headers)


def _stream(number: int) -> bytes:
    """The bytes of a recorded watch."""
    return b"".join(_bytes(each["event"]) + b"\n" for each in _recording()[number]["events"] if "event" in each)


def _log(reflection: Reflection) -> list[str]:
    """The changes without the uids."""
    return [f"{kind} {name} {version}" for kind, name, _, version in (each.split() for each in reflection.index.log)]


def _begun(version: str) -> Reflection:
    """A watch after a list of no objects."""
    return Reflection().synced(version)


def test_pages_and_an_expired_token() -> None:
    """The first page's pods are told once, although the list begins anew; the watch begins at the list's version."""
    reflection = Reflection(Selection(kind=kind_named("Pod"), namespace="default"))
    _response(reflection, PAGE_ONE)
    assert "continue=eyJ2" in reflection.path
    assert _log(reflection) == ["Added p1 225", "Added q0 216"]
    _response(reflection, EXPIRED)
    assert reflection.path == "/api/v1/namespaces/default/pods"
    _response(reflection, ALL_PODS)
    assert (len(reflection.index.objects), len(reflection.index.log)) == (7, 7)
    assert reflection.of(Synced) == [Synced("225")]
    reflection.head()
    reflection.data(_stream(ENDING))
    assert _log(reflection)[7:] == RECORDED_AFTER_225
    reflection.now += 1
    reflection.end()
    assert "resourceVersion=230&" in reflection.path


def test_pages_one_after_the_other() -> None:
    """Four of seven pods, and the token of the third page."""
    reflection = Reflection()
    _response(reflection, PAGE_ONE)
    _response(reflection, PAGE_TWO)
    assert list(reflection.index.objects) == ["p1", "q0", "q1", "q2"]
    assert _recording()[PAGE_TWO]["response"]["metadata"]["continue"] in reflection.path


def test_a_selection_is_entered_and_left() -> None:
    """A node that loses the label of its selection is deleted, and added when it has it again."""
    reflection = _begun("190")
    reflection.data(_stream(OF_NODES))
    assert _log(reflection) == [
        *("Added e1 197", "Added e2 198", "Added e3 200", "Modified e1 201", "Modified e1 202"),
        *("Modified e1 203", "Modified e1 204", "Deleted e2 205", "Added e2 206", "Deleted e3 207"),
    ]


def test_a_pod_with_the_name_of_a_deleted_one_is_another() -> None:
    """Its uid differs."""
    reflection = _begun("207")
    reflection.data(_stream(OF_PODS))
    first, second = (one.split()[2] for one in reflection.index.log if one.startswith("Added p1"))
    assert first != second
    assert len(reflection.index.log) == 18


@pytest.mark.parametrize("number", [ENDING, OF_NODES, OF_PODS, BOOKMARKS, TOO_OLD, REFUSED_STREAM])
@pytest.mark.parametrize("seed", range(5))
def test_watches_are_read_wherever_they_are_cut(number: int, seed: int) -> None:
    """The same changes and the same next request, from one piece, from random ones, and around each line's end."""
    draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
    stream = _stream(number).replace(b'"creationTimestamp":', '"é€𝄞":"\\n","creationTimestamp":'.encode())
    ends = [at for at, byte in enumerate(stream) if byte == ord("\n")]
    characters = [at for at, byte in enumerate(stream) if byte >= 0x80]
    around = {at + shift for at in ends for shift in (0, 1, 2)} | set(characters)
    cuts = sorted(draw.sample(range(len(stream)), min(40, len(stream)))) if seed else sorted(around)
    whole, pieces = _begun("190"), _begun("190")
    whole.data(stream)
    pieces.data(*(stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)))
    assert pieces.index.log == whole.index.log
    for reflection in (whole, pieces):
        reflection.end()
        if not reflection.of(StartRequest):
            reflection.wake()
    assert pieces.path == whole.path


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_lists_are_read_in_any_pieces(size: int) -> None:
    """Also byte by byte."""
    reflection = Reflection()
    body = _bytes(_recording()[ALL_PODS]["response"])
    reflection.head()
    reflection.data(*(body[at : at + size] for at in range(0, len(body), size)))
    reflection.end()
    assert len(reflection.index.objects) == 7


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_watch_that_is_cut_loses_nothing(at: int) -> None:
    """The second watch repeats what comes after the version that the first one reached."""
    reflection = _begun("190")
    lines = _stream(OF_NODES).splitlines(keepends=True)
    stream = b"".join(lines)
    cut = len(stream) * at // 400
    reflection.data(stream[:cut])
    reflection.error()
    seen = len(reflection.index.log)
    reflection.wake()
    reflection.head()
    reflection.data(*lines[seen:])
    whole = _begun("190")
    whole.data(stream)
    assert reflection.index.log == whole.index.log


def test_bookmarks_advance_the_version() -> None:
    """They come after 60 s, as long as the silence that is allowed is longer."""
    reflection = _begun("237")
    for each in _recording()[BOOKMARKS]["events"]:
        reflection.now = 1000 + each["at"]
        reflection.take(reflection.reflector.on_wake(reflection.now))
        assert not reflection.of(StartRequest)
        if "event" in each:
            reflection.data(_bytes(each["event"]) + b"\n")
    reflection.end()
    assert "resourceVersion=260&" in reflection.path


def test_a_version_that_is_too_old_leads_to_a_list() -> None:
    """The ERROR in the stream, and the 410 of a list."""
    reflection = _begun("225")
    reflection.data(_stream(TOO_OLD))
    assert "410: too old resource version: 225 (278)" in reflection.of(Retrying)[0].why
    reflection.wake()
    assert reflection.path == "/api/v1/pods?limit=500"
    _response(reflection, TOO_OLD_LIST)
    reflection.wake()
    assert reflection.path == "/api/v1/pods?limit=500"


def test_a_stream_that_is_refused_goes_on_later() -> None:
    """An ERROR 500 right at the beginning is no progress: the delays grow."""
    reflection = _begun("225")
    for _ in range(3):
        reflection.data(_stream(REFUSED_STREAM))
        reflection.wake()
        assert "resourceVersion=225&" in reflection.path
        reflection.head()
    reflection.data(_stream(REFUSED_STREAM))
    assert reflection.wake_at - reflection.now >= 6.4


def test_a_watch_of_the_future_ends_after_a_silence() -> None:
    """The server accepts it and says nothing."""
    reflection = _begun("99999999")
    reflection.data(_stream(SILENT))
    reflection.wake()
    assert reflection.now == 1000 + SILENCE
    assert reflection.path == "/api/v1/pods?limit=500"


@pytest.mark.parametrize(
    ("number", "words"), [(NO_RIGHT, "nodes is forbidden"), (NO_PATH, "404"), (NO_KIND, "the serv")]
)
def test_refusals_have_the_servers_words(number: int, words: str) -> None:
    """A Status's words, or the plain text."""
    reflection = Reflection()
    _response(reflection, number)
    assert words in reflection.of(Refused)[0].message


def test_other_failures_wait() -> None:
    """A malformed version gives 500 and a new list; a list of the future 504 with a Retry-After of a second."""
    reflection = Reflection()
    _response(reflection, FUTURE_LIST)
    assert reflection.wake_at - reflection.now >= 1
    reflection.wake()
    reflection.synced("abc")
    reflection.end()
    reflection.wake()
    one = _recording()[BAD_VERSION]
    reflection.answer(_bytes(one["response"]), one["status"])
    reflection.wake()
    assert reflection.path == "/api/v1/pods?limit=500"
