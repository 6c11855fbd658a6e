"""The module alone on a hive, in virtual time, with a cloud in memory."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from beehive import Group, Message, Module, ModuleName, handles
from beehive.delivery import DropReason
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED
from beehive.testing import Harness
from edgehub import EdgeHub, LinkCounters, Outgoing
from edgehub.counters import Refusal, Rejection
from edgehub.network.lookout import WatchNetwork
from edgehub.outbox.store import OpenOutbox
from edgehub.settings import Limit, Limits
from edgehub.testing import MemoryCloud
from tests.edgehub.links import settings
from tests.edgehub.messages import content, message


class Fragile(EdgeHub):
    """Fails at the first message of a type."""

    attempts = 1

    @handles("poison")
    def fail(self, _message: Message) -> None:
        raise RuntimeError("on purpose")


class Bed:
    """edgehub, a cloud, and modules that record what they get."""

    def __init__(
        self,
        *,
        seed: int = 0,
        refusing: bool = False,
        hub: type[EdgeHub] = EdgeHub,
        open_outbox: OpenOutbox | None = None,
        watch_network: WatchNetwork | None = None,
        **changes: Any,
    ) -> None:
        self.bee = Harness(seed)
        self.cloud = MemoryCloud(self.bee.simulation, limit=changes.get("max_frame_bytes", 1 << 24))
        self.cloud.refusing = refusing
        self.counters = LinkCounters()
        made = settings(**changes)
        outgoing = Outgoing(made.limits, made.heartbeat)
        self.bee.add(hub, made, self.cloud.make_link, outgoing, self.counters, None, open_outbox, watch_network)
        self.got: dict[str, list[Message]] = {}

    def recorder(self, module_name: str, group_name: str) -> None:
        """Add a module that records."""
        got = self.got.setdefault(module_name, [])

        class Recorder(Module):
            name = module_name
            group = group_name

            @handles()
            def record(self, message: Message) -> None:
                got.append(message)

        self.bee.add(Recorder)

    def sent(self) -> list[Message]:
        """What the cloud got, keepalives apart."""
        return [one for one in self.cloud.messages() if one.route.operation != "keepalive"]

    def keepalives(self) -> list[Message]:
        """The keepalives the cloud got."""
        return [one for one in self.cloud.messages() if one.route.operation == "keepalive"]

    def deliver(self, sent: Message | bytes) -> None:
        """The cloud sends."""
        self.cloud.send(sent)
        self.bee.settle()

    def hub(self, sent: Message) -> Message:
        """A module sends to edgehub."""
        self.bee.send(ModuleName.EDGEHUB, sent)
        return sent


@pytest.fixture
def bed() -> Iterator[Bed]:
    """Linked, with metamanager and edged recorded."""
    made = Bed()
    made.recorder(ModuleName.METAMANAGER, Group.META)
    made.recorder(ModuleName.EDGED, Group.EDGED)
    with made.bee:
        made.bee.start()
        yield made


def started(**changes: Any) -> Bed:
    """A bed without recorders."""
    made = Bed(**changes)
    made.bee.start()
    return made


def contents(messages: list[Message]) -> list[Any]:
    """Decoded contents."""
    return [one.content_as(object) for one in messages]


# The keepalive


def test_the_first_message_is_a_keepalive_of_kubeedge_s_form(bed: Bed) -> None:
    """spec/03 §1.1, field by field."""
    first = msgspec.json.decode(bed.cloud.frames[0])
    assert list(first) == ["header", "route", "content"]
    assert list(first["header"]) == ["msg_id", "timestamp"]
    assert first["route"] == {
        "source": "websocket",
        "group": "resource",
        "operation": "keepalive",
        "resource": "node",
    }
    assert first["content"] == "ping"


def test_a_keepalive_leaves_every_heartbeat_as_long_as_the_link_is_up(bed: Bed) -> None:
    """At once and every 15 s; none after the end, and one heartbeat's worth after the next link."""
    bed.bee.run_for(61)
    assert len(bed.keepalives()) == 5
    bed.cloud.refusing = True
    bed.cloud.cut()
    bed.bee.run_for(60)
    assert len(bed.keepalives()) == 5
    bed.cloud.refusing = False
    bed.bee.run_for(30)
    before = len(bed.keepalives())
    bed.bee.run_for(150)
    assert len(bed.keepalives()) == before + 10


def test_keepalives_are_exempt_from_the_rate_limit() -> None:
    """A node with much to say must not be taken for dead."""
    bed = started(message_qps=0.1, message_burst=1, heartbeat=1.0)
    with bed.bee:
        for number in range(20):
            bed.hub(message(f"default/event/{number}", "insert"))
        bed.bee.run_for(5.5)
        assert len(bed.keepalives()) == 6
        assert len(bed.sent()) == 1


# Connection events


def test_modules_are_told_of_the_link_and_its_end(bed: Bed) -> None:
    """Source edgehub, node/connection, connect; to each group with members, and to no other."""
    bed.cloud.cut()
    bed.bee.settle()
    for module, group in ((ModuleName.METAMANAGER, "meta"), (ModuleName.EDGED, "edged")):
        events = bed.got[module]
        assert contents(events)[:2] == [CLOUD_CONNECTED, CLOUD_DISCONNECTED]
        route = events[0].route
        assert (route.source, route.resource, route.operation, route.group) == (
            "edgehub",
            "node/connection",
            "connect",
            group,
        )
    assert not bed.bee.hive.dead_letters.counts
    assert not bed.bee.sent, "groups without members get nothing"


def test_a_link_that_never_came_up_is_no_event() -> None:
    """There is nothing to say about it."""
    bed = Bed(refusing=True)
    bed.recorder(ModuleName.METAMANAGER, Group.META)
    with bed.bee:
        bed.bee.start()
        bed.bee.run_for(300)
        assert bed.got[ModuleName.METAMANAGER] == []
        assert len(bed.cloud.dialled) > 5


def test_edgehub_knows_of_the_link_before_it_tells_others() -> None:
    """A module that asks at once when it hears of the link is not told that there is none."""
    bed = Bed()

    class Asker(Module):
        name = ModuleName.METAMANAGER
        group = Group.META

        @handles("connection")
        def ask(self, _event: Message) -> None:
            self.send(ModuleName.EDGEHUB, message("default/configmap/c", "query", sync=True))

    bed.bee.add(Asker)
    with bed.bee:
        bed.bee.start()
        assert [one.route.resource for one in bed.sent()] == ["default/configmap/c"]
        assert not bed.counters.refused


def test_the_end_of_the_process_is_no_event(bed: Bed) -> None:
    """Those who would be told have stopped before."""
    bed.bee.hive.stop()
    assert contents(bed.got[ModuleName.METAMANAGER]) == [CLOUD_CONNECTED]
    assert not bed.bee.hive.dead_letters.counts


# The way in


def test_an_object_goes_to_metamanager_as_it_came(bed: Bed) -> None:
    """Content undecoded, header complete."""
    sent = message("default/pod/p", "insert", content({"a": [1, 2]}), resourceversion="7", source="edgecontroller")
    bed.deliver(sent)
    got = bed.got[ModuleName.METAMANAGER][-1]
    assert (got.header, got.route) == (sent.header, sent.route)
    assert got.content_as(dict) == {"a": [1, 2]}
    assert isinstance(got.content, msgspec.Raw)


def test_an_answer_reaches_who_waits_for_it(bed: Bed) -> None:
    """By its parent id; metamanager does not see it."""
    future = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/c", "query"))
    bed.bee.settle()
    request = bed.sent()[0]
    bed.deliver(message("default/configmap/c", "response", {"data": {}}, parent_msg_id=request.id))
    assert future.get().content_as(dict) == {"data": {}}
    assert len(bed.got[ModuleName.METAMANAGER]) == 1


def test_a_late_object_is_stored_instead_of_dropped(bed: Bed) -> None:
    """Nobody waits any more; the cloud wants an acknowledgement all the same."""
    bed.deliver(message("default/secret/s", "response", {"d": 1}, parent_msg_id="gone", resourceversion="9"))
    got = bed.got[ModuleName.METAMANAGER][-1]
    assert (got.route.operation, got.parent_id, got.header.resourceversion) == ("update", "", "9")
    assert bed.counters.late == 1


def test_other_late_answers_are_counted_and_dropped(bed: Bed) -> None:
    """The bus counts them."""
    bed.deliver(message("default/pod/p", "response", "OK", parent_msg_id="gone"))
    assert len(bed.got[ModuleName.METAMANAGER]) == 1
    assert bed.bee.hive.waiters.unmatched[DropReason.UNKNOWN_ANSWER] == 1


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", Rejection.EMPTY),
        (b"{", Rejection.NOT_JSON),
        (b"\xff\xfe\x00", Rejection.NOT_JSON),
        (b"[]", Rejection.NOT_A_MESSAGE),
        (b'{"header":{"msg_id":1}}', Rejection.NOT_A_MESSAGE),
        (b"[" * 100_000, Rejection.NOT_JSON),
        (b'{"header":{"msg_id":"a"},"route":{"group":"x","operation":"o","resource":"r"}}', Rejection.UNKNOWN_GROUP),
        (b'{"header":{"msg_id":"a"},"route":{"group":"user","operation":"o"}}', Rejection.UNKNOWN_SOURCE),
    ],
)
def test_what_cannot_be_taken_is_counted_and_logged_and_the_link_stays(
    bed: Bed, frame: bytes, reason: Rejection, caplog: pytest.LogCaptureFixture
) -> None:
    """And the next message comes through."""
    bed.deliver(frame)
    bed.deliver(message("default/pod/p", "insert"))
    assert bed.counters.rejected == {reason: 1}
    assert "rejected from the cloud" in caplog.text
    assert bed.got[ModuleName.METAMANAGER][-1].route.operation == "insert"
    assert bed.counters.connected


def test_a_message_over_the_limit_is_named_and_who_waits_for_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The answer that does not fit is an error at once, not a timeout."""
    bed = started(max_frame_bytes=10_000)
    with bed.bee:
        future = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/huge", "query"))
        bed.bee.settle()
        request = bed.sent()[0]
        answer = message("default/configmap/huge", "response", "x" * 20_000, parent_msg_id=request.id)
        bed.deliver(answer)
        error = future.get()
        assert (error.route.operation, error.parent_id) == ("error", request.id)
        assert "over this node's limit" in error.content_as(str)
        assert bed.counters.rejected == {Rejection.TOO_LARGE: 1}
        assert f"message {answer.id} about default/configmap/huge" in caplog.text
        assert bed.counters.connected


# The way out


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
    """60 at once, then 30 a second, in order."""
    bed = started()
    with bed.bee:
        ids = [bed.hub(message(f"default/event/{number}", "insert")).id for number in range(150)]
        assert len(bed.sent()) == 60
        bed.bee.run_for(1.001)
        assert len(bed.sent()) == 90
        bed.bee.run_for(10)
        assert [one.id for one in bed.sent()] == ids


def test_acknowledgements_do_not_wait_for_the_rate() -> None:
    """Late ones would make the cloud send its objects again."""
    bed = started(message_qps=1, message_burst=1)
    with bed.bee:
        for number in range(5):
            bed.hub(message(f"default/event/{number}", "insert"))
        answer = bed.hub(message("default/pod/p", "response", "OK", parent_msg_id="p"))
        assert bed.sent()[-1].id == answer.id
        assert len(bed.sent()) == 2


def test_a_request_without_a_link_is_answered_at_once() -> None:
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


def test_requests_are_answered_when_the_link_ends() -> None:
    """Those that wait for their turn, and those that the cloud has read: it may be gone before it has answered."""
    bed = started(message_qps=1, message_burst=1)
    with bed.bee:
        read = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/a", "query"), 60)
        bed.bee.settle()
        assert bed.counters.confirmed == bed.counters.sent
        waiting = bed.bee.future(ModuleName.EDGEHUB, message("default/configmap/b", "query"), 60)
        bed.bee.settle()
        bed.cloud.cut()
        bed.bee.settle()
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
        bed.cloud.cut()
        bed.bee.settle()
        assert not bed.counters.refused


def test_an_outage_keeps_the_order_and_only_the_newest_state() -> None:
    """Whatever its length: one status for each pod, and every event."""
    bed = started(refusing=True)
    with bed.bee:
        ids = []
        for round_ in range(50):
            for pod in ("a", "b"):
                bed.hub(message(f"default/podstatus/{pod}", "update", {"round": round_}))
            if round_ % 10 == 0:
                ids.append(bed.hub(message(f"default/event/{round_}", "insert")).id)
        bed.cloud.refusing = False
        bed.bee.run_for(31)
        states = [one for one in bed.sent() if one.route.operation == "update"]
        assert [(one.route.resource, one.content_as(dict)) for one in states] == [
            ("default/podstatus/a", {"round": 49}),
            ("default/podstatus/b", {"round": 49}),
        ]
        assert [one.id for one in bed.sent() if one.route.operation == "insert"] == ids
        assert bed.counters.refused == {Refusal.SUPERSEDED: 98}


def test_what_finds_no_room_is_a_dead_letter_with_its_reason() -> None:
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


def test_events_that_are_older_than_the_cluster_would_keep_them_are_dropped() -> None:
    """When the link comes up; what devices sent stays for a week."""
    bed = started(refusing=True)
    with bed.bee:
        bed.hub(message("default/event/old", "insert"))
        kept = bed.hub(message("default/device/d", "upload"))
        bed.bee.run_for(3500)
        young = bed.hub(message("default/event/young", "insert"))
        bed.bee.run_for(200)
        bed.cloud.refusing = False
        bed.bee.run_for(31)
        assert [one.id for one in bed.sent()] == [kept.id, young.id]
        assert bed.counters.refused == {Refusal.TOO_OLD: 1}


def test_what_was_not_confirmed_leaves_again_on_the_next_link() -> None:
    """A network that ate it, though every write had succeeded; the ids stay, so the cloud can tell."""
    bed = started()
    with bed.bee:
        bed.bee.run_for(31)
        bed.cloud.stalled = True
        first = bed.hub(message("default/event/a", "insert"))
        second = bed.hub(message("default/pod/p", "response", "OK", parent_msg_id="p"))
        bed.cloud.stalled = False
        bed.cloud.cut()
        third = bed.hub(message("default/event/b", "insert"))
        bed.bee.run_for(1)
        assert [one.id for one in bed.sent()] == [first.id, second.id, second.id, first.id, third.id]
        bed.bee.run_for(14.1)
        bed.cloud.cut()
        bed.bee.run_for(40)
        assert len(bed.sent()) == 5, "all has settled"


def test_what_arrived_less_than_a_keepalive_period_ago_leaves_again() -> None:
    """The cloud may have died with it. Answers do not: the cloud asks again for those it misses."""
    bed = started()
    with bed.bee:
        bed.bee.run_for(31)
        event = bed.hub(message("default/event/a", "insert"))
        answer = bed.hub(message("default/pod/p", "response", "OK", parent_msg_id="p"))
        bed.bee.run_for(14)
        assert bed.counters.confirmed >= 2
        bed.cloud.cut()
        bed.bee.run_for(1)
        assert [one.id for one in bed.sent()] == [event.id, answer.id, event.id]


def test_what_the_cloud_has_answered_does_not_leave_again() -> None:
    """Though nobody waited for the answer."""
    bed = started()
    with bed.bee:
        bed.bee.run_for(31)
        sent = bed.hub(message("default/nodestatus/n", "update"))
        bed.deliver(message("default/nodestatus/n", "response", "OK", parent_msg_id=sent.id))
        bed.cloud.cut()
        bed.bee.run_for(1)
        assert [one.id for one in bed.sent()] == [sent.id]


@pytest.mark.parametrize("waiting", [True, False])
def test_a_message_over_the_limit_is_refused_by_name(*, waiting: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits gets an error; otherwise it is a dead letter. The module and the link go on."""
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


@pytest.mark.parametrize("huge", [content("x" * 20_000), "x" * 20_000, b"x" * 20_000], ids=["raw", "text", "bytes"])
def test_a_content_over_the_limit_is_refused_before_a_frame_is_made(
    huge: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known to be too large is not copied."""
    bed = started(max_frame_bytes=10_000)
    with bed.bee:
        monkeypatch.setattr("edgehub.sealing.encode", lambda _message: pytest.fail("a frame was made"))
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


def test_what_waits_leaves_before_the_process_ends() -> None:
    """The rate limit is not for goodbyes."""
    bed = started(message_qps=1, message_burst=1)
    ids = [bed.hub(message(f"default/event/{number}", "insert")).id for number in range(20)]
    bed.bee.hive.stop()
    assert [one.id for one in bed.sent()] == ids


# Dialling


@pytest.mark.parametrize("seed", range(5))
def test_tries_are_spread_by_full_jitter(seed: int) -> None:
    """At once, then between nothing and 1, 2, 4, 8, 16, 30, 30 … seconds."""
    bed = started(seed=seed, refusing=True)
    with bed.bee:
        bed.bee.run_for(600)
        times = bed.cloud.dialled
        assert times[0] == 0.0
        delays = [after - before for before, after in itertools.pairwise(times)]
        ceilings = [1, 2, 4, 8, 16] + [30] * len(delays)
        assert all(0 <= delay <= ceiling + 1e-6 for delay, ceiling in zip(delays, ceilings, strict=False))
        assert max(delays) > 10
        assert len(set(delays)) == len(delays)


def test_nodes_that_lost_the_same_cloud_come_back_at_different_times() -> None:
    """No two of twenty try the fourth time within the same tenth of a second more than thrice."""
    fourth = []
    for seed in range(20):
        bed = started(seed=seed, refusing=True)
        with bed.bee:
            bed.bee.run_for(60)
            fourth.append(round(bed.cloud.dialled[3], 1))
    assert max(fourth.count(time) for time in fourth) <= 3


def test_a_steady_link_that_ends_is_dialled_at_once() -> None:
    """And the delays begin anew."""
    bed = started()
    with bed.bee:
        bed.bee.run_for(100)
        bed.cloud.cut()
        bed.bee.settle()
        bed.bee.run_for(0.001)
        assert len(bed.cloud.dialled) == 2
        assert bed.counters.connected


def test_a_cloud_that_accepts_and_drops_is_not_dialled_without_end() -> None:
    """A short link without a word from the cloud does not reset the delays."""
    bed = started()
    bed.cloud.stalled = True
    with bed.bee:
        for _ in range(600):
            if bed.counters.connected:
                bed.cloud.cut()
            bed.bee.run_for(1)
        assert 20 < len(bed.cloud.dialled) < 120


def test_a_flapping_link_to_a_cloud_that_answers_is_made_anew_within_a_second() -> None:
    """A network that cuts every second is not the cloud's fault; nor are all nodes back at the same moment."""
    bed = started()
    with bed.bee:
        delays = []
        for _ in range(100):
            bed.bee.run_for(1.0)
            bed.cloud.cut()
            bed.bee.settle()
            dials, began = len(bed.cloud.dialled), bed.bee.clock.monotonic()
            while len(bed.cloud.dialled) == dials:
                bed.bee.run_for(0.01)
            delays.append(bed.bee.clock.monotonic() - began)
        assert max(delays) <= 1.02
        assert len({round(delay, 1) for delay in delays}) > 5


def test_the_links_ends_are_counted_by_reason() -> None:
    """One end for each dial, whatever it was."""
    bed = started()
    with bed.bee:
        bed.cloud.refusing = True
        bed.cloud.cut()
        bed.bee.run_for(100)
        dials = len(bed.cloud.dialled)
        assert bed.counters.ends == {"closed by peer": 1, "dial": dials - 1}
        assert bed.counters.connections == 1
        assert not bed.counters.connected


# Restarts


def test_a_failed_module_ends_its_link_and_keeps_what_waited() -> None:
    """The supervisor starts it again; what was not sent leaves over the new link."""
    bed = Bed(hub=Fragile, message_qps=1, message_burst=1)
    bed.recorder(ModuleName.METAMANAGER, Group.META)
    with bed.bee:
        bed.bee.start()
        ids = [bed.hub(message(f"default/event/{number}", "insert")).id for number in range(3)]
        bed.hub(message("default/poison/p", "insert"))
        bed.bee.run_for(60)
        assert bed.bee.hive.restarts()[ModuleName.EDGEHUB] == 1
        assert bed.bee.hive.dead_letters.counts == {DropReason.POISON: 1}
        assert contents(bed.got[ModuleName.METAMANAGER]) == [CLOUD_CONNECTED, CLOUD_DISCONNECTED, CLOUD_CONNECTED]
        assert [one.id for one in bed.sent()] == [ids[0], *ids], "the first had not settled"
        assert len(bed.cloud.links) == 2
