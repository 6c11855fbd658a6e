"""The link's life and the way in: the module alone on a hive, in virtual time, with a cloud in memory."""

import itertools

import msgspec
import pytest

from beehive import Group, Message, Module, ModuleName, handles
from beehive.delivery import DropReason
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED
from edgehub.counters import Rejection
from edgehub.settings import Limit, Limits
from tests.edgehub.beds import Bed, Fragile, contents, started
from tests.edgehub.messages import content, message


class Publisher(Module):
    """Answers as eventbus does."""

    name = ModuleName.EVENTBUS

    @handles()
    def publish(self, asked: Message) -> None:
        self.reply(asked)


# The keepalive


def test_the_first_message_is_a_keepalive_of_kubeedge_s_form(bed: Bed) -> None:
    """docs/protocol.md, "Keepalive", field by field."""
    first = msgspec.json.decode(bed.cloud.frames[0])
    assert list(first) == ["header", "route", "content"]
    assert list(first["header"]) == ["msg_id", "timestamp"]
    assert first["route"] == {"source": "websocket", "group": "resource", "operation": "keepalive", "resource": "node"}
    assert first["content"] == "ping"


def test_a_keepalive_leaves_every_heartbeat_as_long_as_the_link_is_up(bed: Bed) -> None:
    """Immediately and every 15 s; none after the end, and one heartbeat's worth after the next link."""
    bed.bee.run_for(61)
    assert len(bed.keepalives()) == 5
    bed.cloud.refusing = True
    bed.cut(wait=60)
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


def test_modules_get_the_link_and_its_end(bed: Bed) -> None:
    """Source edgehub, node/connection, connect; to each group with members, and to no other."""
    bed.cut()
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
    """A module that asks as soon as it learns of the link is not refused."""
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
    """The modules to notify have stopped earlier."""
    bed.bee.hive.stop()
    assert contents(bed.got[ModuleName.METAMANAGER]) == [CLOUD_CONNECTED]
    assert not bed.bee.hive.dead_letters.counts
    assert not bed.counters.connected


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
    assert bed.bee.hive.pending_requests.unmatched[DropReason.UNKNOWN_ANSWER] == 1


def test_nobody_waits_under_an_id_of_the_cloud(bed: Bed) -> None:
    """Who answers what came from the cloud sends to the cloud, whatever the frame's header says."""
    bed.deliver(message("default/pod/p", "insert", sync=True))
    assert not bed.got[ModuleName.METAMANAGER][-1].header.sync


def test_an_upload_that_is_no_list_is_refused() -> None:
    """As an earlier version asked, one text at a time: a trace of it may be replayed. The module does not fail."""
    bed = Bed()
    with bed.bee as bee:
        bee.start()
        answer = bee.ask(ModuleName.EDGEHUB, message("a/user/b", "upload", "text", source="bus", group="user"))
        assert answer.route.operation == "error"
        assert not bee.hive.restarts()[ModuleName.EDGEHUB]


def test_what_follows_a_message_without_room_finds_none_either() -> None:
    """The broker sends both again, in their order; a later session finds room. The session's name does not leave."""
    bed = Bed(limits=Limits(uploads=Limit(1, 1 << 20)))
    with bed.bee as bee:
        bee.start()
        bed.cloud.refusing = True
        bed.cloud.cut()

        def upload(texts: str, session: str) -> object:
            content = [part for text in texts for part in ("a/user/b", text)]
            answer = bee.ask(ModuleName.EDGEHUB, message(session, "upload", content, source="bus", group="user"))
            return answer.content if answer.route.operation == "response" else "refused"

        assert [upload("ab", "one"), upload("b", "zero")] == [1, "refused"]
        bed.cloud.refusing = False
        bee.run_for(60)
        assert [upload("c", "one"), upload("b", "two")] == ["refused", 1]
        bee.run_for(60)
        sent = [one for one in bed.sent() if one.route.operation == "upload"]
        assert list(dict.fromkeys(one.content_as(str) for one in sent)) == ["a", "b"]
        assert {(one.route.resource, one.route.source, one.header.sync) for one in sent} == {("a/user/b", "bus", False)}


@pytest.mark.parametrize("publishes", [True, False])
def test_the_cloud_learns_whether_its_message_was_published(publishes: bool) -> None:
    """eventbus is asked, and its answer leaves under the id of the cloud's message; without it that is an error."""
    bed = Bed()
    if publishes:
        bed.bee.add(Publisher)
    with bed.bee as bee:
        bee.start()
        asked = message("out/x", "publish", "text", source="router_eventbus", group="user", sync=True)
        bed.deliver(asked)
        bee.run_for(61)
        (answer,) = bed.sent()
        assert answer.route.operation == ("response" if publishes else "error")
        assert (answer.parent_id, answer.route.group, answer.header.sync) == (asked.id, "user", False)


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
        (b'{"header":{"msg_id":"a"},"route":{"group":"func","source":"edged","operation":"o"}}', Rejection.INTERNAL),
    ],
)
def test_what_cannot_be_taken_is_counted_and_logged_and_the_link_stays(
    bed: Bed, frame: bytes, reason: Rejection, caplog: pytest.LogCaptureFixture
) -> None:
    """And the next message comes through."""
    bed.deliver(frame)
    bed.deliver(message("default/pod/p", "insert"))
    assert bed.counters.rejected == {reason: 1}
    assert "rejected a message from the cloud" in caplog.text
    assert bed.got[ModuleName.METAMANAGER][-1].route.operation == "insert"
    assert bed.counters.connected


def test_a_message_over_the_limit_is_named_and_its_waiting_sender_gets_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A request whose answer does not fit fails immediately, not after its timeout."""
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


# Dialling


@pytest.mark.parametrize("seed", range(5))
def test_tries_are_spread_by_full_jitter(seed: int) -> None:
    """Immediately, then between nothing and 1, 2, 4, 8, 16, 30, 30 … seconds."""
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


def test_a_steady_link_that_ends_is_dialled_immediately() -> None:
    """And the delays start over."""
    bed = started()
    with bed.bee:
        bed.bee.run_for(100)
        bed.cut()
        bed.bee.run_for(0.001)
        assert len(bed.cloud.dialled) == 2
        assert bed.counters.connected


def test_after_a_steady_link_the_delays_start_over() -> None:
    bed = started(refusing=True, reconnect_base=1.0, reconnect_limit=1000.0)
    with bed.bee:
        bed.cloud.stalled = True
        bed.bee.run_for(500)
        bed.cloud.refusing = False
        bed.bee.run_for(2000)
        bed.cloud.refusing = True
        bed.cut(wait=4)
        assert len([at for at in bed.cloud.dialled if at > bed.bee.clock.monotonic() - 4]) > 2


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


def test_a_flapping_link_to_a_cloud_that_answers_is_up_again_within_a_second() -> None:
    """A network that cuts every second is not the cloud's fault; nor are all nodes back at the same moment."""
    bed = started()
    with bed.bee:
        delays = []
        for _ in range(100):
            bed.bee.run_for(1.0)
            bed.cut()
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
        bed.cut(wait=100)
        dials = len(bed.cloud.dialled)
        assert bed.counters.ends == {"closed by peer": 1, "dial": dials - 1}
        assert bed.counters.connections == 1
        assert not bed.counters.connected


# Restarts


def test_a_failed_module_ends_its_link_and_keeps_what_waited() -> None:
    """The supervisor starts it again; what was not sent leaves over the new link."""
    bed = Bed(hub=Fragile, message_qps=1, message_burst=1)
    bed.recorder(ModuleName.METAMANAGER, Group.META)
    bed.bee.expect_failures()
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
