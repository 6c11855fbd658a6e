"""The reflector: lists, watches, and what it does when the server or the connection fails."""

from urllib.parse import parse_qs, urlsplit

import pytest

from modules.apimachinery.kinds import kind_named
from modules.cloud.client.reflector.effects import (
    Added,
    CancelRequest,
    Deleted,
    EpochChanged,
    Modified,
    Refused,
    Retrying,
    StartRequest,
    Synced,
    WakeReflectorAt,
)
from modules.cloud.client.reflector.observations import (
    Bookmark,
    ObservedEvent,
    ObservedObject,
    ReadFailed,
    ReadRefusal,
    WatchEnded,
)
from modules.cloud.client.reflector.reflector import LONGEST_SILENCE, SILENCE, KnownObjects
from modules.cloud.client.reflector.selection import Selection, WatchRequest
from tests.modules.cloud.client.reflections import Reflection, bookmark, error_event, event, page, status

A1, A2, B1 = ("a", "ua", "1"), ("a", "ua", "2"), ("b", "ub", "1")


def _query(path: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}


def _delay(reflection: Reflection) -> float:
    return reflection.wake_at - reflection.now


def test_a_list_in_pages_is_followed_by_a_watch_from_its_version() -> None:
    """The objects come with each page; the list's end comes once, before the watch."""
    reflection = Reflection(
        Selection(kind=kind_named("Pod"), field_selector="spec.nodeName!=", label_selector="a in (b)")
    )
    assert reflection.path == "/api/v1/pods?limit=500&fieldSelector=spec.nodeName%21%3D&labelSelector=a+in+%28b%29"
    reflection.answer(page("7", A1, following="t/=1"))
    assert (reflection.index.log, reflection.of(Synced)) == (["Added a ua 1"], [])
    assert _query(reflection.path) | {"limit": "500", "continue": "t/=1"} == _query(reflection.path)
    reflection.answer(page("8", B1))  # of a server without snapshots: it says nothing of the objects before
    assert (reflection.index.log[1:], reflection.of(Synced)) == (["Added b ub 1"], [Synced("7")])
    query = _query(reflection.path)
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    selectors = {"fieldSelector": "spec.nodeName!=", "labelSelector": "a in (b)"}
    assert query == {"watch": "true", "resourceVersion": "7", "allowWatchBookmarks": "true", **selectors}
    assert isinstance(reflection.of(StartRequest)[0].request, WatchRequest)


@pytest.fixture
def reflection() -> Reflection:
    return Reflection()


def test_the_next_page_is_requested_before_this_ones_objects_are_delivered(reflection: Reflection) -> None:
    """The server makes it meanwhile."""
    reflection.answer(page("7", A1, B1, following="t"))
    assert [type(effect) for effect in reflection.effects] == [StartRequest, Added, Added]


def test_events_become_changes_and_advance_the_version() -> None:
    """Known versions are reported once; a name with another uid is another object; bookmarks count."""
    reflection = Reflection().synced("1", A1)
    reflection.data(event("MODIFIED", A1), event("MODIFIED", A2), event("ADDED", A2), event("ADDED", ("b", "ub", "3")))
    reflection.data(event("ADDED", ("b", "uc", "4")), event("DELETED", ("a", "ua", "5")), event("DELETED", A2))
    reflection.data(event("DELETED", ("b", "ud", "6")), bookmark("9"))
    reflection.now += 1
    reflection.end()
    assert reflection.index.log[1:] == [
        "Modified a ua 2",
        "Added b ub 3",
        "Deleted b ub 3",
        "Added b uc 4",
        "Deleted a ua 5",
        "Deleted b uc 4",
    ]
    assert _query(reflection.path)["resourceVersion"] == "9"


def test_events_of_before_an_object_in_a_list_tell_nothing_of_it() -> None:
    """The last page of a list without a snapshot has an object that was made after the list's version; the watch from
    that version reports the former object of the name, and then this one.
    """
    reflection = Reflection().synced("5", ("a", "new", "9"))
    reflection.data(event("ADDED", ("a", "old", "6")), event("DELETED", ("a", "old", "7")))
    reflection.data(event("ADDED", ("a", "new", "8")), event("ADDED", ("a", "new", "9")))
    reflection.data(event("MODIFIED", ("a", "new", "10")))
    assert reflection.index.log == ["Added a new 9", "Modified a new 10"]


def test_objects_keep_all_their_bytes(reflection: Reflection) -> None:
    """Fields without a type survive; entries of lists get the kind of their list."""
    item = '{"metadata":{"name":"a","uid":"u","resourceVersion":"1","uid2":null},"spec":{"né w":[1.50]}}'
    reflection.answer(
        f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"1"}},"items":[ {item} ]}}'.encode()
    )
    assert reflection.of(Added)[0].object.body == b'{"kind":"Pod","apiVersion":"v1",' + item.encode()[1:]
    reflection.head()
    changed = item.replace(':"1"', ':"2"').encode()
    reflection.data(b'{"type":"MODIFIED","object":' + changed + b"}\n")
    assert reflection.of(Modified)[0].object.body == changed


def test_a_list_without_items_empties_the_index() -> None:
    """Go writes an empty list as null."""
    reflection = Reflection().synced("1", A1)
    reflection.data(error_event(410))
    reflection.wake()
    reflection.answer(b'{"metadata":{"resourceVersion":"5"},"items":null}')
    assert reflection.index.log[1:] == ["Deleted a ua 5"]


def test_a_relist_tells_the_differences_only() -> None:
    """An object that is gone is deleted by the version of the list; one with a new uid is deleted and added."""
    rows = [("same", "u1", "1"), ("new", "u2", "1"), ("gone", "u3", "1"), ("other", "u4", "1")]
    reflection = Reflection().synced("1", *rows)
    reflection.data(error_event(410, "too old resource version: 1 (9)"))
    assert reflection.of(CancelRequest) == [CancelRequest(reflection.number)]
    assert "too old resource version" in reflection.of(Retrying)[0].why
    assert 0.8 <= _delay(reflection) < 1.6
    reflection.wake()
    assert "watch" not in reflection.path
    reflection.answer(page("9", ("same", "u1", "1"), ("new", "u2", "7"), ("other", "u5", "8"), ("more", "u6", "9")))
    assert reflection.index.log[4:] == [
        "Modified new u2 7",
        "Deleted other u4 1",
        "Added other u5 8",
        "Added more u6 9",
        "Deleted gone u3 9",
    ]


def test_an_expired_continue_token_leads_to_a_list_in_one(reflection: Reflection) -> None:
    """As client-go does; what was listed before is not told again, and a second 410 waits."""
    reflection.answer(page("7", A1, following="t"))
    reflection.answer(status(410), 410)
    assert reflection.path == "/api/v1/pods"
    reflection.answer(page("9", A1, B1))
    assert reflection.index.log == ["Added a ua 1", "Added b ub 1"]
    other = Reflection()
    other.answer(status(410), 410)
    assert (other.of(StartRequest), len(other.of(Retrying))) == ([], 1)


@pytest.mark.parametrize(
    ("code", "again"), [(410, False), (500, False), (429, True), (502, True), (503, True), (504, True)]
)
def test_a_failed_watch_goes_on_or_lists(reflection: Reflection, code: int, again: bool) -> None:
    """410 and 500 (malformed version) lead to a list; an overloaded server keeps the version valid."""
    reflection.answer(page("7", A1))
    reflection.answer(status(code, "why"), code)
    assert 0.8 <= _delay(reflection) < 1.6
    reflection.wake()
    assert ("resourceVersion=7" in reflection.path) == again


def test_other_errors_within_a_stream_go_on_from_the_last_version() -> None:
    """Nothing behind the error counts."""
    reflection = Reflection().synced("7", A1)
    reflection.data(bookmark("8") + error_event(500, "etcd is away") + event("MODIFIED", A2))
    assert reflection.index.log == ["Added a ua 1"]
    reflection.wake()
    assert _query(reflection.path)["resourceVersion"] == "8"


def test_the_delay_grows_to_30_seconds_and_is_reset_by_progress(reflection: Reflection) -> None:
    """Each delay is at least the base of its step; an event, not the mere acceptance of a watch, is progress."""
    delays = []
    for _ in range(10):
        reflection.error()
        delays.append(_delay(reflection))
        reflection.wake()
    floors = [0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15, 15, 15]
    assert all(floor <= delay < 2 * floor + 0.001 for delay, floor in zip(delays, floors, strict=True)), delays
    reflection.synced("7")
    reflection.error()
    assert _delay(reflection) >= 15
    reflection.wake()
    reflection.head()
    reflection.data(bookmark("8"))
    reflection.error()
    assert _delay(reflection) < 1.6


@pytest.mark.parametrize(("text", "least", "most"), [("20", 20, 20), ("9999", 60, 60), ("Wed, 21 Oct", 0.8, 1.6)])
def test_retry_after_is_kept_within_bounds(reflection: Reflection, text: str, least: float, most: float) -> None:
    """The longer of the server's time and ours is waited for, and a minute at most."""
    reflection.answer(b"busy", 429, retry_after=text)
    assert least <= _delay(reflection) <= most


def test_a_cut_within_an_event_goes_on_from_the_last_version() -> None:
    """Half an event counts as none, whether the stream ended with an error or without."""
    for finish in (Reflection.error, Reflection.end):
        reflection = Reflection().synced("1", A1)
        reflection.data(event("MODIFIED", A2) + event("ADDED", ("b", "ub", "3"))[:-5])
        finish(reflection)
        assert reflection.index.log[1:] == ["Modified a ua 2"]
        reflection.wake()
        assert _query(reflection.path)["resourceVersion"] == "2"
        reflection.head()
        reflection.data(event("ADDED", ("b", "ub", "3")))
        assert reflection.index.log[2:] == ["Added b ub 3"]


def test_a_watch_that_ends_in_time_is_followed_immediately() -> None:
    """A watch that ends within a second counts as failed, also after events."""
    reflection = Reflection().synced("7")
    for _ in range(3):
        reflection.error()
        reflection.wake()
    reflection.head()
    reflection.now += 1
    reflection.end()
    assert _query(reflection.path)["resourceVersion"] == "7"
    assert not reflection.of(Retrying)
    reflection.error()
    assert _delay(reflection) < 1.6, "it was no failure"
    reflection.wake()
    reflection.head()
    reflection.data(bookmark("8"))
    reflection.end()
    assert reflection.of(Retrying)
    assert not reflection.of(StartRequest)


def test_silence_leads_to_a_list() -> None:
    """A server that was restored is silent on a version that it has not reached; the list shows the restored state."""
    reflection = Reflection().synced("500", A2, B1)
    assert _delay(reflection) == SILENCE
    reflection.wake(60)
    assert reflection.of(WakeReflectorAt) == [WakeReflectorAt(1000 + SILENCE)]
    reflection.data(bookmark("510"))
    reflection.wake(60)
    assert reflection.wake_at == 1060 + SILENCE
    reflection.wake()
    assert reflection.of(CancelRequest) == [CancelRequest(reflection.number - 1)]
    reflection.answer(page("300", A1, ("b", "uc", "2")))
    assert reflection.effects[0] == EpochChanged("510", "300")
    assert reflection.index.log[2:] == ["Modified a ua 1", "Deleted b ub 1", "Added b uc 2"]
    assert _query(reflection.path)["resourceVersion"] == "300"


def test_versions_that_are_given_again_are_sent_again() -> None:
    """A known version may have another content when the versions went back."""
    reflection = Reflection().synced("500", A1, B1)
    reflection.wake()
    reflection.answer(page("300", A1))
    assert reflection.index.log[2:] == ["Modified a ua 1", "Deleted b ub 300"]
    reflection.head()
    reflection.data(event("ADDED", A1), error_event(410))
    reflection.wake()
    reflection.answer(page("301", A1))
    assert reflection.index.log[4:] == []


def test_versions_that_are_given_again_between_two_pages_are_sent_again(reflection: Reflection) -> None:
    reflection.answer(page("500", A1, following="more"))
    reflection.answer(page("300", B1))
    reflection.wake()
    reflection.answer(page("300", A1, B1))
    assert reflection.index.log == ["Added a ua 1", "Modified a ua 1", "Added b ub 1"]


def test_silence_is_longer_where_it_is_usual() -> None:
    """A server without bookmarks, or an idle kind, is listed less and less often; an event ends that."""
    reflection = Reflection().synced("7")
    found = []
    for _ in range(6):
        found.append(_delay(reflection))
        reflection.wake()
        reflection.answer(page("7"))
        reflection.head()
    assert found == [120, 240, 480, 960, LONGEST_SILENCE, LONGEST_SILENCE]
    reflection.data(event("ADDED", A1))
    reflection.error()
    reflection.wake()
    assert reflection.wake_at == 1000 + sum(found[:6]) + SILENCE


def test_an_outage_of_the_length_of_silence_leads_to_a_list() -> None:
    """The server may have been restored in the meantime, and be past our version already."""
    reflection = Reflection().synced("7", A1)
    while "watch" in reflection.path:
        reflection.error()
        reflection.wake()
    assert SILENCE <= reflection.now - 1000 < SILENCE + 60


def test_versions_that_are_no_numbers_have_no_order() -> None:
    """Another version is just another one."""
    reflection = Reflection().synced("zz", A1)
    reflection.data(error_event(410))
    reflection.wake()
    reflection.answer(page("aa", A2))
    assert reflection.of(EpochChanged) == []
    assert reflection.index.log[1:] == ["Modified a ua 2"]


def test_a_version_that_goes_back_between_pages_restarts_the_list(reflection: Reflection) -> None:
    """The pages would belong to two states."""
    reflection.answer(page("9", A2, following="t"))
    reflection.answer(page("5", B1))
    assert reflection.of(Synced) == []
    reflection.wake()
    reflection.answer(page("5", A1, B1))
    assert reflection.index.objects == {"a": ("ua", "1"), "b": ("ub", "1")}


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405])
def test_a_refused_kind_is_asked_for_slowly(reflection: Reflection, code: int) -> None:
    """The server's words are handed on, in one line; the objects stay known."""
    reflection.answer(status(code, "no\nright"), code)
    assert reflection.of(Refused) == [Refused(code, "no\\nright")]
    assert 30 <= _delay(reflection) <= 60
    reflection.wake()
    reflection.synced("7", A1)
    reflection.wake(1)
    reflection.end()
    reflection.answer(b"404 page not found\n", code)
    assert reflection.of(Refused) == [Refused(code, "404 page not found")]
    reflection.wake()
    assert reflection.path == "/api/v1/pods?limit=500"
    assert len(reflection.reflector) == 1


@pytest.mark.parametrize("other", [("shop", "a"), ("default", "b")])
def test_objects_of_other_namespaces_or_names_are_others(other: tuple[str, str]) -> None:
    known = KnownObjects()
    objects = [ObservedObject(*key, uid, "1") for key, uid in ((("default", "a"), "ua"), (other, "ub"))]
    known.begin_list()
    changes = [change for each in objects for change in known.observe(each, is_listed=True)]
    assert changes == [Added(each, is_listed=True) for each in objects]
    assert not [*known.end_list("1")]
    assert [*known.remove(objects[0])] == [Deleted(objects[0])]
    assert len(known) == 1


def test_responses_of_earlier_requests_are_ignored() -> None:
    """A cancelled response may still have been on its way; so may the wake of a time that was replaced."""
    reflection = Reflection().synced("1", A1)
    old = reflection.number
    reflection.data(error_event(410))
    late = ObservedEvent("MODIFIED", ObservedObject("default", *A2))
    for observation in (late, Bookmark("9"), WatchEnded(), ReadFailed("x"), ReadRefusal(403, "no")):
        assert reflection.reflector.on_observation(old, observation, reflection.now) == []
    assert reflection.reflector.on_wake(reflection.now) == [WakeReflectorAt(reflection.wake_at)]
    reflection.wake()
    assert reflection.reflector.on_wake(reflection.now) == []


def test_a_stopped_reflector_does_nothing_until_it_is_started() -> None:
    """The request under way is cancelled; a start tells what has changed."""
    reflection = Reflection().synced("1", A1)
    assert reflection.reflector.stop() == [CancelRequest(reflection.number)]
    assert reflection.reflector.on_wake(reflection.now + 1000) == []
    assert reflection.reflector.stop() == []
    reflection.take(reflection.reflector.start(reflection.now))
    reflection.answer(page("5", B1))
    assert reflection.index.log[1:] == ["Added b ub 1", "Deleted a ua 5"]


def test_a_reflector_that_was_stopped_does_nothing_until_it_is_started(reflection: Reflection) -> None:
    """Also when it waited to ask again, and its time comes."""
    reflection.error()
    reflection.take(reflection.reflector.stop())
    reflection.wake()
    assert reflection.effects == []
    reflection.take(reflection.reflector.start(reflection.now))
    assert len(reflection.of(StartRequest)) == 1
