"""The way out: the module alone on a hive, in virtual time, with a cloud in memory."""

import logging
from typing import Any

import msgspec
import pytest

from beehive import Message, ModuleName
from beehive.delivery import DropReason
from edgehub.counters import Refusal
from edgehub.errors import TOO_BIG, PeerClosedError
from edgehub.settings import Limit, Limits
from tests.edgehub.beds import Bed, started
from tests.edgehub.messages import content, message


def test_sync_is_cleared_before_a_message_leaves(bed: Bed) -> None:
    """As KubeEdge's hub does; all else leaves as it is."""
    request = message("default/configmap/c", "query", None, source="edged", group="meta")
    bed.bee.future(ModuleName.EDGEHUB, request)
    bed.bee.settle()
    left = msgspec.json.decode(bed.cloud.frames[-1])
    assert left == {
        "header": {"msg_id": request.id, "timestamp": request.header.timestamp},
        "route": {"source": "edged", "group": "meta", "operation": "query", "resource": "default/configmap/c"},
        "content": None,
    }


def test_messages_are_held_to_the_rate_and_none_is_lost() -> None:
    """60 immediately, then 30 a second, in order."""
    bed = started()
    with bed.bee:
        ids = [bed.hub(message(f"default/device/{number}", "upload")).id for number in range(150)]
        assert len(bed.sent()) == 60
        bed.bee.run_for(1.001)
        assert len(bed.sent()) == 90
        bed.bee.run_for(10)
        assert [one.id for one in bed.sent()] == ids


@pytest.mark.parametrize(
    "unrated",
    [
        pytest.param(message("default/pod/p", "response", "OK", parent_msg_id="p"), id="a late acknowledgement"),
        pytest.param(message("default/pod/p", "delete", "{}"), id="the deletion of a pod"),
    ],
)
def test_what_follows_from_a_message_that_was_counted_does_not_wait_for_the_rate(unrated: Message) -> None:
    """A late acknowledgement would make the cloud send the object again; 100 pods would end slower than they start."""
    bed = started(message_qps=1, message_burst=1)
    with bed.bee:
        for number in range(5):
            bed.hub(message(f"default/event/{number}", "insert"))
        bed.hub(unrated)
        assert [one.id for one in bed.sent()[1:]] == [unrated.id]


def test_a_request_without_a_link_is_answered_immediately() -> None:
    """With the reason, instead of a minute's wait."""
    bed = started(refusing=True)
    with bed.bee:
        before = bed.bee.clock.monotonic()
        answer = bed.bee.ask(ModuleName.EDGEHUB, message("default/configmap/c", "query"))
        assert answer.route.operation == "error"
        assert "not connected to the cloud" in answer.content_as(str)
        assert "refused" in answer.content_as(str)
        assert bed.bee.clock.monotonic() == before
        assert bed.counters.refused == {Refusal.NOT_CONNECTED: 1}
        assert not bed.bee.hive.dead_letters.counts


def test_the_log_names_a_request_of_the_kubernetes_api_that_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Their messages have neither a resource nor an operation."""
    caplog.set_level(logging.INFO, "edgehub")
    bed = started(refusing=True)
    with bed.bee:
        bed.bee.ask(ModuleName.EDGEHUB, message("default/configmap/c", "query"))
        bed.bee.ask(
            ModuleName.EDGEHUB, message("null", "null", {"Key": "/core/v1/services/null/null", "Verb": "watch"})
        )
        bed.bee.ask(ModuleName.EDGEHUB, message("null", "null", "no Application"))
    lines = [each.partition(": not connected")[0] for each in caplog.messages if each.startswith("not sent")]
    assert lines == [
        "not sent: query default/configmap/c", "not sent: watch /core/v1/services/null/null", "not sent: null",
    ]  # fmt: skip


def test_requests_are_answered_when_the_link_ends() -> None:
    """Waiting requests, and sent ones: the cloud may be gone before it has answered."""
    bed = started(message_qps=1, message_burst=1)
    with bed.bee:
        read = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/a", "query"), 60)
        bed.bee.settle()
        assert bed.counters.confirmed == bed.counters.sent
        waiting = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/b", "query"), 60)
        bed.bee.settle()
        bed.cut()
        for future in (read, waiting):
            assert "whether it arrived is not known" in future.get().content_as(str)
        assert bed.counters.refused == {Refusal.NOT_CONNECTED: 2}


def test_a_request_that_was_answered_or_that_nobody_waits_for_is_not_refused_when_the_link_ends() -> None:
    """It is over."""
    bed = started()
    with bed.bee:
        answered = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/a", "query"), 60)
        bed.bee.settle()
        bed.deliver(message("default/configmap/a", "response", "it", parent_msg_id=bed.sent()[-1].id))
        assert answered.get().content_as(str) == "it"
        given_up = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/b", "query"), 5)
        bed.bee.run_for(6)
        assert given_up.settled
        bed.cut()
        assert not bed.counters.refused


def test_a_message_without_room_is_a_dead_letter_with_its_reason() -> None:
    """Never silently gone."""
    three = Limit(3, 10_000)
    bed = started(refusing=True, limits=Limits(uploads=three, events=three))
    with bed.bee:
        for number in range(5):
            bed.hub(message(f"default/device/{number}", "upload"))
            bed.hub(message(f"default/event/{number}", "insert"))
        letters = list(bed.bee.hive.dead_letters)
        assert [letter.message.route.resource for letter in letters] == [
            "default/device/3",
            "default/event/0",
            "default/device/4",
            "default/event/1",
        ]
        assert {letter.reason for letter in letters} == {DropReason.NOT_SENT}
        assert letters[0].detail.startswith("3 messages (")
        assert bed.counters.refused == {Refusal.NO_ROOM: 2, Refusal.GAVE_WAY: 2}


@pytest.mark.parametrize("waiting", [True, False])
def test_a_message_over_the_limit_is_refused_by_name(*, waiting: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A waiting sender gets an error; otherwise the message becomes a dead letter. Module and link keep running."""
    bed = started(max_frame_bytes=10_000)
    with bed.bee:
        large = message("default/podpatch/large", "patch", "x" * 10_000)
        if waiting:
            answer = bed.bee.ask(ModuleName.EDGEHUB, large)
            assert "over the limit of 10000" in answer.content_as(str)
        else:
            bed.hub(large)
            assert bed.bee.hive.dead_letters.counts == {DropReason.NOT_SENT: 1}
        assert "default/podpatch/large" in caplog.text
        assert bed.counters.refused == {Refusal.TOO_LARGE: 1}
        small = bed.hub(message("default/event/e", "insert"))
        assert bed.sent()[-1].id == small.id


@pytest.mark.parametrize("waiting", [True, False])
def test_a_message_for_whose_size_the_cloud_ends_the_link_is_refused_by_name(
    *, waiting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The cloud's limit may be below the node's. Sent again, the message would end each link; the others arrive."""
    bed = started()
    with bed.bee:
        bed.bee.settle()
        bed.cloud.stalled = True
        kept = [bed.hub(message(f"default/device/{size}", "upload", "x" * size)) for size in (9, 70_000)]
        large = message("default/device/large", "upload", "x" * 100_000)
        answer = bed.bee.future(ModuleName.EDGEHUB, large) if waiting else None
        if not waiting:
            bed.hub(large)
        bed.bee.settle()
        assert bed.sent()[-1].id == large.id
        bed.cloud.frames.clear()
        bed.cloud.stalled = False
        bed.cloud.cut(PeerClosedError(TOO_BIG, "message too big"))
        bed.bee.run_for(60.0)
        assert [one.id for one in bed.sent()] == [one.id for one in kept]
        assert "default/device/large" in caplog.text
        assert bed.counters.refused == {Refusal.TOO_LARGE: 1}
        if answer is not None:
            assert "more than the cloud takes" in answer.get().content_as(str)


def test_no_message_of_a_usual_size_is_refused_although_the_cloud_says_that_it_is_too_large() -> None:
    bed = started()
    with bed.bee:
        bed.bee.settle()
        bed.cloud.stalled = True
        sent = bed.hub(message("default/device/d", "upload", "x" * 50_000))
        bed.cloud.frames.clear()
        bed.cloud.stalled = False
        bed.cloud.cut(PeerClosedError(TOO_BIG, "message too big"))
        bed.bee.run_for(60.0)
        assert [one.id for one in bed.sent()] == [sent.id]


@pytest.mark.parametrize("huge", [content("x" * 20_000), "x" * 20_000, b"x" * 20_000], ids=["raw", "text", "bytes"])
def test_a_content_over_the_limit_is_refused_before_a_frame_is_made(
    huge: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known to be too large is not copied."""
    bed = started(max_frame_bytes=10_000)
    with bed.bee:
        monkeypatch.setattr("edgehub.classes.encode", lambda _message: pytest.fail("a frame was made"))
        bed.hub(message("default/device/huge", "upload", huge))
        assert bed.counters.refused == {Refusal.TOO_LARGE: 1}
        assert "default/device/huge" in caplog.text
        monkeypatch.undo()


def test_a_content_without_a_json_form_is_refused() -> None:
    """It must not fail the module."""
    bed = started()
    with bed.bee:
        answer = bed.bee.ask(ModuleName.EDGEHUB, message("default/pod/p", "insert", object()))
        assert answer.route.operation == "error"
        assert bed.counters.refused == {Refusal.NOT_JSON: 1}
        assert bed.bee.hive.restarts()[ModuleName.EDGEHUB] == 0


def test_a_keepalive_that_the_cloud_has_read_confirms_no_later_message(bed: Bed) -> None:
    """Else what was lost with the link would count as delivered."""
    bed.cut(60.0)
    bed.cloud.stalled = True
    bed.cut(60.0)
    sent = bed.hub(message("default/event/e", "insert"))
    bed.cloud.links[-1].confirm()
    bed.bee.run_for(600.0)
    bed.cloud.stalled = False
    bed.cut(60.0)
    assert [one.id for one in bed.sent()] == [sent.id, sent.id]


def test_waiting_messages_are_sent_before_the_process_ends() -> None:
    """The rate limit does not apply at the end."""
    bed = started(message_qps=1, message_burst=1)
    ids = [bed.hub(message(f"default/event/{number}", "insert")).id for number in range(20)]
    bed.bee.hive.stop()
    assert [one.id for one in bed.sent()] == ids
