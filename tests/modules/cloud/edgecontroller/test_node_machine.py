"""The decisions of a node's life, on random orders of events."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from modules.cloud.edgecontroller.node_machine import (
    BeginConnection,
    Claim,
    ClaimedElsewhere,
    Close,
    ConfirmDeletion,
    Connected,
    DeleteNode,
    DeletionConfirmed,
    Disappeared,
    Disconnected,
    Dropped,
    EndWatches,
    EnsureNode,
    Forget,
    Load,
    NodeAdded,
    NodeDeleted,
    NodeEffect,
    NodeEvent,
    NodeRecord,
    Registered,
    Release,
    Restart,
    Restored,
    RestoreMissed,
    RolledBack,
    SendUnacknowledged,
    Store,
    Superseded,
    step,
)
from modules.cloud.storage.object_sync import Holder, NodeState

SEEDS = range(0, 1000, 100)
OWN = "own"


class Facts(msgspec.Struct):
    """What the machine reads; the test changes it."""

    uid: str = ""
    stored: NodeState = NodeState()
    is_behind: bool = False
    epoch: int = 0
    is_epoch_over: bool = False
    now: float = 5.0


class Node:
    """A node, its connections, and what was done about them.

    Args:
        source: of the order of events.
    """

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.record = NodeRecord()
        self.seen = Facts()
        self.open: list[str] = []
        """Open connections, as seen from both sides."""
        self.is_loaded = False
        self.has_node = False
        """Whether the node was sent, or will be sent, its present Node."""
        self.registering: list[str] = []
        """The connections that registrations came over, until they are answered."""
        self.links = 0
        self.now = 1000

    def take(self, event: NodeEvent) -> list[NodeEffect]:
        """Steps, and does what follows."""
        self.record, effects = step(self.record, event, self.seen)
        for effect in effects:
            self._carry_out(effect)
        return effects

    def _carry_out(self, effect: NodeEffect) -> None:
        match effect:
            case Close(connection):
                self.open = [each for each in self.open if each != connection]
            case Load(forgets, _, state):
                self.is_loaded = True
                self.seen.stored = state or (NodeState() if forgets else self.seen.stored)
            case Release():
                self.is_loaded = self.has_node = False
            case Store(state):
                self.seen.stored = state
            case Forget():
                self.seen.stored = NodeState()
            case EnsureNode(uid):
                self.has_node = self.has_node or uid != ""
            case SendUnacknowledged() | Restart() | DeleteNode():
                assert self.is_loaded or not isinstance(effect, DeleteNode), (
                    "nothing is sent to a node that is not served"
                )
            case _:
                pass

    def events(self) -> Iterator[NodeEvent]:
        """The events that may come next; their effects on the world are made as they are drawn."""
        self.now += self.random.choice((0, 1, 20))
        self.seen.now = self.now
        match self.random.randrange(12):
            case 0 | 1:
                self.links += 1
                link = f"link {self.links}"
                self.open = [link]  # cloudhub has ended the one before
                yield Connected(link, Holder(OWN, self.now))
            case 2 if self.open:
                yield Disconnected(self.open.pop())
            case 3:
                self.links += 1  # both come late, the end first
                link, self.open = f"link {self.links}", []
                yield Disconnected(link)
                yield Connected(link, Holder(OWN, self.now))
            case 4:
                self.registering.append(self.record.connection)
            case 5 if self.registering:
                yield Registered(self.registering.pop(0))
            case 6 if not self.seen.uid:
                self.seen.uid = f"uid {self.now}"
                self.has_node = self.is_loaded  # the change is sent to a node that is served
                yield NodeAdded(self.seen.uid)
            case 7 if self.seen.uid:
                uid, self.seen.uid, self.has_node = self.seen.uid, "", False
                yield NodeDeleted(uid)
            case 8:
                holder = Holder("other", self.now + self.random.choice((-5, 5)))
                yield self.random.choice((ClaimedElsewhere(holder), Dropped(), RolledBack()))
            case 9 if self.open and not self.is_loaded:
                yield Superseded(self.open[-1])
            case 10:
                self.seen.epoch += self.random.randrange(2)
                self.seen.is_behind = self.random.random() < 0.5
                self._serve_elsewhere()
            case 11 if self.record.connection:
                yield DeletionConfirmed(self.record.connection, self.random.choice(("former", self.seen.stored.uid)))

    def _serve_elsewhere(self) -> None:
        """Another cloudcore, whose mirror may know more, may have served the node."""
        uid = self.random.choice((self.seen.uid, "another", self.seen.stored.uid))
        self.seen.stored = NodeState(uid, self.seen.stored.epoch)


def lives(seed: int) -> Iterator[tuple[Node, NodeEvent, list[NodeEffect]]]:
    """A hundred lives, event by event."""
    for each in range(seed, seed + 100):
        node = Node(random.Random(each))  # noqa: S311 - reproducible on purpose
        for _ in range(node.random.randrange(5, 80)):
            for event in node.events():
                yield node, event, node.take(event)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_node_is_left_with_a_connection_over_which_nothing_comes(seed: int) -> None:
    """The newest connection is served, or it has ended and the node connects again."""
    for node, event, _ in lives(seed):
        assert node.is_loaded == node.record.is_served, event
        assert node.record.is_served == (node.record.connection != ""), event
        assert not node.open or node.record.connection == node.open[-1], event
        if not isinstance(event, Disconnected):  # the beginning of the connection may still come
            assert node.record.connection in ("", *node.open), event


@pytest.mark.parametrize("seed", SEEDS)
def test_every_claim_is_followed_by_the_objects_or_by_the_end_of_the_connection(seed: int) -> None:
    for _, event, effects in lives(seed):
        names = [type(effect) for effect in effects]
        if Claim in names:
            assert names[-1] is SendUnacknowledged, event
            assert names.index(Claim) < names.index(Load) < names.index(BeginConnection), event
        if isinstance(event, Disconnected | Dropped | ClaimedElsewhere):
            assert set(names) <= {Release, Close, Disappeared}, event


@pytest.mark.parametrize("seed", SEEDS)
def test_versions_and_objects_of_another_node_object_or_epoch_never_count(seed: int) -> None:
    """Whatever is loaded belongs to the present Node and epoch, or to a Node that the mirror may not have been told of
    yet.
    """
    for node, event, effects in lives(seed):
        for load in (effect for effect in effects if isinstance(effect, Load)):
            present = NodeState(node.seen.uid, node.seen.epoch)
            may_be_late = node.seen.is_behind or not node.seen.uid
            assert node.seen.stored == present or (may_be_late and not load.forgets), event
            assert node.seen.stored.epoch == node.seen.epoch, event


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_node_has_is_forgotten_only_with_its_node_object(seed: int) -> None:
    """The mirror has no Node, or an older one, while its watch is broken, or between two Nodes of one name."""
    for each in range(seed, seed + 100):
        node = Node(random.Random(each))  # noqa: S311 - reproducible on purpose
        for _ in range(node.random.randrange(5, 80)):
            for event in node.events():
                had = node.seen.stored.uid
                for effect in node.take(event):
                    if isinstance(effect, Forget):
                        assert isinstance(event, NodeDeleted | DeletionConfirmed), event
                        assert had in ("", event.uid), event
                    elif isinstance(effect, Load) and effect.forgets:
                        assert node.seen.uid not in ("", had), event
                        assert not node.seen.is_behind, event


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_registers_has_its_node_object_in_any_order(seed: int) -> None:
    """Its registration, the new Node, the beginning of its connection: in any order (a flake of a test, once)."""
    source = random.Random(seed)  # noqa: S311 - reproducible on purpose
    for _ in range(100):
        node = Node(source)
        connected = Connected("link 1", Holder(OWN, 1))
        came_over = ""
        for what in source.sample(("connected", "watch", "answer"), 3):
            match what:
                case "connected":
                    node.take(connected)
                case "watch":
                    node.seen.uid = "u"
                    node.has_node = node.is_loaded
                    node.take(NodeAdded("u"))
                case _:
                    node.take(Registered(came_over))
        assert node.has_node


def connected_to(connection: str = "link 1") -> NodeRecord:
    """The record of a node that is served, and has registered over no connection."""
    record, _ = step(NodeRecord(), Connected(connection, Holder(OWN, 5)), Facts())
    return record


def test_the_end_of_an_earlier_connection_ends_nothing() -> None:
    record, effects = step(connected_to("link 2"), Disconnected("link 1"), Facts())
    assert (record.connection, effects) == ("link 2", [])


def test_a_connection_whose_end_came_first_is_not_served() -> None:
    record, _ = step(NodeRecord(), Disconnected("link 1"), Facts())
    record, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts())
    assert (record, effects) == (NodeRecord(ended="link 1"), [Release()])


@pytest.mark.parametrize(("at", "is_newer"), [(6, True), (5, False), (4, False), (5 + 61, False)])
def test_a_node_that_has_connected_elsewhere_since_is_left_to_that_cloudcore(at: int, is_newer: bool) -> None:
    """A minute ahead is a wrong clock."""
    record, _ = step(NodeRecord(), ClaimedElsewhere(Holder("other", at)), Facts())
    _, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts())
    assert (effects == [Close("link 1")]) is is_newer
    assert any(isinstance(effect, Claim) for effect in effects) is not is_newer


@pytest.mark.parametrize(
    ("at", "own", "is_newer"),
    [
        (1000.6, 1000.5, True),
        (1000.5, 1000.6, False),
        (1000.5, 1000.5, False),
        (1000, 1000.5, False),
        (1001, 1000.5, True),
    ],
)
def test_of_two_connections_in_one_second_the_newer_one_stays(at: float, own: float, is_newer: bool) -> None:
    """A cloudcore of an earlier version states whole seconds: of such a second nobody knows which is newer."""
    seen = Facts(now=1001.0)
    record, _ = step(NodeRecord(), ClaimedElsewhere(Holder("other", at)), seen)
    _, effects = step(record, Connected("link 1", Holder(OWN, own)), seen)
    assert (effects == [Close("link 1")]) is is_newer


def test_a_node_that_was_left_to_another_cloudcore_is_taken_when_it_comes_again() -> None:
    record, _ = step(NodeRecord(), ClaimedElsewhere(Holder("other", 6)), Facts())
    record, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts())
    assert effects == [Close("link 1")]
    record, _ = step(record, Connected("link 2", Holder(OWN, 5)), Facts())
    assert record.connection == "link 2"


@pytest.mark.parametrize("event", [ClaimedElsewhere(Holder("other", 5)), Dropped()])
def test_a_connection_that_was_ended_is_not_claimed_when_its_beginning_is_told_again(event: NodeEvent) -> None:
    """As after a transaction that failed, whose messages come again; the other may have claimed within one second."""
    record, effects = step(connected_to("link 1"), event, Facts())
    assert effects == [Release(), Close("link 1")]
    for _ in range(3):
        record, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts())
        assert (record.connection, effects) == ("", [Release()])


def test_a_connection_that_was_left_to_another_cloudcore_is_not_claimed_when_its_beginning_is_told_again() -> None:
    """The transaction that ended it failed, as on a full disk: the node was connected elsewhere, and lost that too."""
    record, _ = step(NodeRecord(), ClaimedElsewhere(Holder("other", 6)), Facts())
    record, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts())
    assert effects == [Close("link 1")]
    for _ in range(3):
        record, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts())
        assert (record.connection, effects) == ("", [Release()])


def test_a_connection_that_began_long_before_it_could_be_claimed_is_older_all_the_same() -> None:
    """The database may have been away for that long; no clock is wrong."""
    record, _ = step(NodeRecord(), ClaimedElsewhere(Holder("other", 405)), Facts())
    _, effects = step(record, Connected("link 1", Holder(OWN, 5)), Facts(now=410.0))
    assert effects == [Close("link 1")]


def test_a_registration_before_the_connection_was_claimed_counts_for_that_connection_only() -> None:
    record, _ = step(NodeRecord(), Registered(""), Facts())
    for link, restarts in (("link 1", 1), ("link 2", 0)):
        record, effects = step(record, Connected(link, Holder(OWN, 5)), Facts())
        assert effects.count(Restart()) == restarts


def test_a_new_node_object_takes_no_state_of_another_one() -> None:
    """Its state is stored when it is loaded, which forgets what belongs to the other."""
    stored = {uid: step(connected_to(), NodeAdded("new"), Facts("new", NodeState(uid)))[1] for uid in ("", "other")}
    assert [Store(NodeState("new")) in effects for effects in stored.values()] == [True, False]


def test_a_node_object_of_another_uid_ends_the_state_of_the_one_before() -> None:
    """The mirror had none when the node connected. The node is sent everything again, and all of it is recorded."""
    seen = Facts(stored=NodeState("old"))
    record, effects = step(NodeRecord(), Connected("link 1", Holder(OWN, 5)), seen)
    assert Load(forgets=False, resets=False, state=None) in effects
    seen.uid = "new"
    _, effects = step(record, NodeAdded("new"), seen)
    load = Load(forgets=True, resets=False, state=NodeState("new"))
    assert effects == [load, BeginConnection(), EnsureNode("new"), SendUnacknowledged()]
    seen.is_behind = True
    assert step(record, NodeAdded("new"), seen)[1] == [SendUnacknowledged()]


@pytest.mark.parametrize("epoch", [1, 3])
def test_versions_of_another_epoch_do_not_count_whichever_is_later(epoch: int) -> None:
    _, effects = step(NodeRecord(), Connected("link 1", Holder(OWN, 5)), Facts(stored=NodeState("", 2), epoch=epoch))
    assert [effect.resets for effect in effects if isinstance(effect, Load)] == [True]


def test_after_a_roll_back_nothing_was_sent_over_the_connection() -> None:
    assert step(NodeRecord(), RolledBack(), Facts()) == (NodeRecord(), [BeginConnection()])


def test_in_an_epoch_that_is_over_a_node_is_not_served_and_all_is_listed_again() -> None:
    record, effects = step(NodeRecord(), Connected("link 1", Holder(OWN, 5)), Facts(is_epoch_over=True))
    assert record == NodeRecord()
    assert effects == [Claim("link 1", 5), Release(), Close("link 1"), RestoreMissed()]


def test_a_state_of_a_later_epoch_ends_the_connection() -> None:
    record, effects = step(connected_to("link 1"), Restored(), Facts(is_epoch_over=True))
    assert record == NodeRecord(ended="link 1")
    assert effects == [Release(), Close("link 1")]


def test_a_repeated_registration_over_one_connection_keeps_the_watches() -> None:
    record, first = step(connected_to(), Registered("link 1"), Facts())
    _, second = step(record, Registered("link 1"), Facts())
    assert first == [EndWatches(), Restart(), SendUnacknowledged()]
    assert second == first[1:]


def test_a_node_object_that_seems_gone_is_deleted_on_the_node_only_if_the_api_server_confirms_it() -> None:
    seen = Facts(stored=NodeState("former"))
    record, effects = step(NodeRecord(), Connected("link 1", Holder(OWN, 5)), seen)
    assert ConfirmDeletion("link 1", "former") in effects
    confirmed = DeletionConfirmed("link 1", "former")
    assert step(record, confirmed, seen)[1] == [EndWatches(), BeginConnection(), Forget(), DeleteNode("former")]
    assert step(record, confirmed, Facts(stored=NodeState("another")))[1] == [DeleteNode("former")]
    assert step(record, confirmed, Facts(uid="new"))[1] == []
    assert step(connected_to("link 2"), confirmed, seen)[1] == []
    registered, _ = step(record, Registered("link 1"), seen)
    assert step(registered, confirmed, seen)[1] == [], "the mirror may not have its new Node yet"


def test_after_a_start_a_connected_node_is_loaded_again_and_another_one_is_not() -> None:
    record, effects = step(NodeRecord(connection="link 1"), Restored(), Facts(uid="u"))
    assert record.is_served
    assert effects == [Load(forgets=False, resets=False, state=NodeState("u")), SendUnacknowledged()]
    assert step(NodeRecord(), Restored(), Facts()) == (NodeRecord(), [])
    _, effects = step(NodeRecord(connection="link 1"), Restored(), Facts(stored=NodeState("former")))
    assert ConfirmDeletion("link 1", "former") in effects, "its Node may have been deleted meanwhile"


@pytest.mark.parametrize(("stored", "is_forgotten"), [("u", True), ("", True), ("another", False)])
def test_the_end_of_a_node_object_ends_what_belongs_to_it_and_to_no_other(stored: str, is_forgotten: bool) -> None:
    """Another cloudcore may have noted the new Node already."""
    _, effects = step(NodeRecord(), NodeDeleted("u"), Facts(stored=NodeState(stored)))
    assert (Forget() in effects) is is_forgotten
