"""Reliable delivery as a state machine."""

from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beehive.message import Header, Message, Route
from modules.cloudhub.deliveries import SUPERSEDED, WAITING, NodeDeliveries, Offer

RESEND = 5.0
_ids = count()


def about(name: str, version: int, operation: str = "update", kind: str = "pod", uid: str = "") -> Message:
    content: Any = {"metadata": {"name": name, "uid": uid or f"uid-{name}"}}
    header = Header(msg_id=f"m{next(_ids)}", resourceversion=str(version) if version >= 0 else "")
    route = Route("edgecontroller", "", "resource", operation, f"node/n/default/{kind}/{name}")
    return Message(header, route, content)


def sent(deliveries: NodeDeliveries, now: float = 0.0) -> list[str]:
    return [message.id for message in deliveries.due(now)]


def test_a_message_is_sent_again_with_the_same_id_until_it_is_acknowledged() -> None:
    deliveries = NodeDeliveries(RESEND)
    message = about("a", 1)
    deliveries.offer(message)
    assert sent(deliveries, 0) == [message.id]
    assert sent(deliveries, 4.9) == []
    assert sent(deliveries, 5) == [message.id]
    assert deliveries.acknowledge(message.id)
    assert sent(deliveries, 100) == []


def test_answers_that_nobody_acknowledges_do_not_come_to_fill_the_window() -> None:
    """An edge that had stopped waiting for them asks again; objects are sent until they are acknowledged."""
    deliveries = NodeDeliveries(RESEND, window=3)
    late = [about("a", 1, "response", kind="configmap") for _ in range(2)]
    pod, new = about("p", 1), about("b", 1)
    for message in (*late, pod, new):
        deliveries.offer(message)
    for round_ in range(5):
        assert sent(deliveries, RESEND * round_) == [*(answer.id for answer in late), pod.id]
    assert sent(deliveries, RESEND * 5) == [pod.id, new.id]
    assert sent(deliveries, RESEND * 6) == [pod.id, new.id]
    assert not deliveries.acknowledge(late[0].id)


def test_a_second_or_a_foreign_acknowledgement_says_nothing() -> None:
    deliveries = NodeDeliveries(RESEND)
    message = about("a", 1)
    deliveries.offer(message)
    assert not deliveries.acknowledge(message.id), "it has not been sent yet"
    sent(deliveries)
    assert deliveries.acknowledge(message.id)
    assert not deliveries.acknowledge(message.id)
    assert not deliveries.acknowledge("unheard of")


def test_what_is_never_acknowledged_is_not_kept_without_end() -> None:
    """A node that patches its own pod, and acknowledges nothing of what it is then sent."""
    deliveries = NodeDeliveries(RESEND)
    messages = [about("a", version) for version in range(10 * SUPERSEDED)]
    for message in messages:
        deliveries.offer(message)
        sent(deliveries)
    assert len(deliveries._sent) <= SUPERSEDED + 1
    assert deliveries.acknowledge(messages[0].id) is None
    late, newest = deliveries.acknowledge(messages[-2].id), deliveries.acknowledge(messages[-1].id)
    assert late is not None
    assert newest is not None
    assert (late.version, newest.version) == (10 * SUPERSEDED - 2, 10 * SUPERSEDED - 1)
    assert not deliveries._sent
    assert not deliveries._superseded


def test_answers_to_who_acknowledges_nothing_are_bounded() -> None:
    deliveries = NodeDeliveries(RESEND)
    offers = [deliveries.offer(about(f"c{number}", 1, "response", kind="configmap")) for number in range(WAITING + 10)]
    assert offers.count(Offer.NO_ROOM) == 10
    assert deliveries.offer(about("p", 1)) is Offer.QUEUED, "what the cloud itself wants to say has room"
    sent(deliveries)
    assert deliveries.offer(about("c", 1, "response", kind="configmap")) is Offer.QUEUED


def test_only_the_newest_version_is_pending() -> None:
    deliveries = NodeDeliveries(RESEND)
    first, second = about("a", 1), about("a", 2)
    deliveries.offer(first)
    assert sent(deliveries) == [first.id]
    assert deliveries.offer(second) is Offer.QUEUED
    assert deliveries.offer(about("a", 1)) is Offer.ON_ITS_WAY
    assert sent(deliveries) == [second.id]
    deliveries.acknowledge(first.id)
    assert deliveries.acknowledged_version("uid-a") == 1
    assert len(deliveries) == 1, "the second is still to be acknowledged"
    deliveries.acknowledge(second.id)
    assert deliveries.acknowledged_version("uid-a") == 2


def test_what_the_node_has_is_not_sent_again() -> None:
    deliveries = NodeDeliveries(RESEND)
    message = about("a", 7)
    deliveries.offer(message)
    sent(deliveries)
    deliveries.acknowledge(message.id)
    assert deliveries.offer(about("a", 7)) is Offer.ACKNOWLEDGED
    assert deliveries.offer(about("a", 8)) is Offer.QUEUED


def test_a_message_without_a_version_is_dropped_unless_it_is_a_deletion() -> None:
    deliveries = NodeDeliveries(RESEND)
    assert deliveries.offer(about("a", -1)) is Offer.NO_VERSION
    assert deliveries.offer(about("a", -1, "delete")) is Offer.QUEUED


def test_an_acknowledged_deletion_forgets_the_object() -> None:
    deliveries = NodeDeliveries(RESEND)
    for message in (about("a", 1), about("a", 2, "delete")):
        deliveries.offer(message)
        sent(deliveries)
        deliveries.acknowledge(message.id)
    assert deliveries.acknowledged_version("uid-a") is None


def test_nothing_follows_a_deletion_of_the_same_object() -> None:
    deliveries = NodeDeliveries(RESEND)
    deliveries.offer(about("a", 2, "delete"))
    assert deliveries.offer(about("a", 3)) is Offer.ON_ITS_WAY
    assert deliveries.offer(about("a", 3, "delete")) is Offer.ON_ITS_WAY


def test_a_resent_deletion_cannot_take_away_a_successor_of_the_same_name() -> None:
    deliveries = NodeDeliveries(RESEND)
    deliveries.offer(about("a", 2, "delete", kind="configmap"))
    successor = about("a", 3, "insert", kind="configmap", uid="new")
    deliveries.offer(successor)
    assert sent(deliveries) == [successor.id]


def test_a_pod_and_its_successor_are_both_told() -> None:
    """An edge deletes pods by uid, so both messages are needed."""
    deliveries = NodeDeliveries(RESEND)
    deletion, successor = about("a", 2, "delete"), about("a", 3, "insert", uid="new")
    deliveries.offer(deletion)
    deliveries.offer(successor)
    assert sent(deliveries) == [deletion.id, successor.id]


def test_one_object_that_is_never_acknowledged_holds_up_no_other() -> None:
    deliveries = NodeDeliveries(RESEND)
    stuck = about("stuck", 1)
    deliveries.offer(stuck)
    sent(deliveries)
    other = about("other", 2)
    deliveries.offer(other)
    assert sent(deliveries) == [other.id]


def test_at_most_a_window_is_under_way() -> None:
    deliveries = NodeDeliveries(RESEND, window=2)
    messages = [about(str(number), number) for number in range(3)]
    for message in messages:
        deliveries.offer(message)
    assert sent(deliveries) == [messages[0].id, messages[1].id]
    deliveries.acknowledge(messages[0].id)
    assert sent(deliveries) == [messages[2].id]


def test_every_query_is_answered_even_with_a_known_version() -> None:
    deliveries = NodeDeliveries(RESEND)
    answers = [about("a", 1, "response", kind="configmap") for _ in range(2)]
    for answer in answers:
        assert deliveries.offer(answer) is Offer.QUEUED
    assert sent(deliveries) == [answer.id for answer in answers]
    deliveries.acknowledge(answers[0].id)
    assert deliveries.acknowledged_version("uid-a") == 1


class AnyOrder(RuleBasedStateMachine):
    """Whatever is lost, repeated and reordered, the node ends with the newest version of each object."""

    def __init__(self) -> None:
        super().__init__()
        self.deliveries = NodeDeliveries(RESEND, window=2)
        self.now = 0.0
        self.newest: dict[str, int] = {}
        self.wire: list[Message] = []
        self.node: dict[str, int] = {}
        self.version = 0

    @rule(name=st.sampled_from("abc"))
    def change(self, name: str) -> None:
        self.version += 1
        self.newest[name] = self.version
        self.deliveries.offer(about(name, self.version))

    @rule()
    def transmit(self) -> None:
        self.now += 1
        self.wire += self.deliveries.due(self.now)

    @precondition(lambda self: self.wire)
    @rule(data=st.data(), acknowledged=st.booleans())
    def receive(self, data: st.DataObject, acknowledged: bool) -> None:
        message = self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1)))
        self.store(message)
        if acknowledged:
            self.deliveries.acknowledge(message.id)

    @rule()
    def lose_the_link(self) -> None:
        """All begins anew, with what is to be sent now."""
        self.wire.clear()
        self.deliveries = NodeDeliveries(RESEND, window=2)
        for name, version in self.newest.items():
            self.deliveries.offer(about(name, version))

    def store(self, message: Message) -> None:
        name = message.content["metadata"]["name"]
        self.node[name] = max(self.node.get(name, 0), int(message.header.resourceversion))

    @invariant()
    def what_counts_as_acknowledged_was_received(self) -> None:
        for name in self.newest:
            known = self.deliveries.acknowledged_version(f"uid-{name}")
            assert known is None or known <= self.node.get(name, 0)

    def teardown(self) -> None:
        for _ in range(20):
            self.now += RESEND
            for message in list(self.deliveries.due(self.now)):
                self.store(message)
                self.deliveries.acknowledge(message.id)
        assert self.node == self.newest
        assert len(self.deliveries) == 0


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
