"""Reliable delivery as a state machine."""

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from beehive.message import Header, Message, Route
from modules.cloud.cloudhub import node_session
from modules.cloud.cloudhub.node_session import SUPERSEDED, WAITING, NodeSession, OfferResult
from modules.cloud.messages import ObjectMessage

RESEND = 5.0
_ids = count()


def about(name: str, version: int, operation: str = "update", kind: str = "pod", uid: str = "") -> Message:
    content: Any = {"metadata": {"name": name, "uid": uid or f"uid-{name}"}}
    header = Header(msg_id=f"m{next(_ids)}", resourceversion=str(version) if version >= 0 else "")
    route = Route("edgecontroller", "", "resource", operation, f"node/n/default/{kind}/{name}")
    return Message(header, route, content)


def sent(session: NodeSession, now: float = 0.0) -> list[str]:
    return [message.id for message in (*session.overdue(now), *session.due(now))]


def send(session: NodeSession, message: Message, now: float = 0.0) -> list[str]:
    """Offer a message, and return what is sent then."""
    session.offer(message)
    return sent(session, now)


@pytest.fixture
def session() -> NodeSession:
    return NodeSession(RESEND)


def test_a_message_is_sent_again_with_the_same_id_until_it_is_acknowledged(session: NodeSession) -> None:
    message = about("a", 1)
    assert send(session, message, 1) == [message.id]
    assert sent(session, 5.9) == []
    for now in (6, 11):
        assert sent(session, now) == [message.id]
        assert sent(session, now) == [], "once"
    assert session.oldest_unacknowledged() == 1
    assert session.acknowledge(message.id)
    assert sent(session, 100) == []


def test_a_new_message_goes_without_a_look_at_those_that_are_overdue(session: NodeSession) -> None:
    """A crowd that is slow to acknowledge costs each new message nothing."""
    first, second = about("a", 1), about("b", 1)
    send(session, first, 1)
    session.offer(second)
    assert [message.id for message in session.due(1 + RESEND)] == [second.id]
    assert [message.id for message in session.overdue(1 + RESEND)] == [first.id]


def test_the_age_of_what_is_unacknowledged_is_the_oldests_since_it_was_first_sent() -> None:
    again: list[int] = []
    session = NodeSession(RESEND, resent=lambda: again.append(1))
    assert session.oldest_unacknowledged() is None
    first, second = about("a", 1), about("b", 2)
    for now, message in ((1.0, first), (3.0, second)):
        send(session, message, now)
    sent(session, 7.0)
    assert (session.oldest_unacknowledged(), len(again)) == (1.0, 1)
    session.acknowledge(first.id)
    assert session.oldest_unacknowledged() == 3.0


def test_objects_are_known_by_their_uid_also_in_content_that_nobody_has_decoded(session: NodeSession) -> None:
    """Or by their name, where there is none."""

    def raw(version: int, text: str) -> Message:
        return about("a", version, kind="configmap").with_content(msgspec.Raw(text.encode()))

    for version, text in ((7, '{"metadata":{"uid":"one"}}'), (3, '{"metadata":{"uid":"two"}}'), (2, '{"metadata":{}}')):
        message = raw(version, text)
        assert session.offer(message) is OfferResult.QUEUED
        assert sent(session) == [message.id]
    for version, text in ((7, '{"metadata":{"uid":"one"}}'), (2, '{"metadata":5}'), (2, "[]"), (2, '{"metadata":{}}')):
        assert session.offer(raw(version, text)) is OfferResult.ON_ITS_WAY


def test_an_object_whose_uid_is_known_is_read_in_no_content(session: NodeSession) -> None:
    message = about("a", 3)
    session.offer(ObjectMessage(message.header, message.route, msgspec.Raw(b"{"), "uid-b", 7))
    assert sent(session) == [message.id]
    acknowledged = session.acknowledge(message.id)
    assert acknowledged is not None
    assert (acknowledged.key, acknowledged.version) == ("uid-b", 7)


def test_answers_that_nobody_acknowledges_do_not_come_to_fill_the_window() -> None:
    """An edge that had stopped waiting for them asks again; objects are sent until they are acknowledged."""
    session = NodeSession(RESEND, window=3)
    late = [about("a", 1, "response", kind="configmap") for _ in range(2)]
    pod, new = about("p", 1), about("b", 1)
    for message in (*late, pod, new):
        session.offer(message)
    for round_ in range(5):
        assert sent(session, RESEND * round_) == [*(answer.id for answer in late), pod.id]
    assert sent(session, RESEND * 5) == [pod.id, new.id]
    assert sent(session, RESEND * 6) == [pod.id, new.id]
    assert not session.acknowledge(late[0].id)


def test_a_second_or_a_foreign_acknowledgement_does_not_count(session: NodeSession) -> None:
    message = about("a", 1)
    session.offer(message)
    assert not session.acknowledge(message.id), "it has not been sent yet"
    sent(session)
    assert session.acknowledge(message.id)
    assert not session.acknowledge(message.id)
    assert not session.acknowledge("unheard of")


def test_unacknowledged_messages_are_not_kept_without_end(session: NodeSession) -> None:
    """A node that patches its own pod, and acknowledges nothing of what it is then sent."""
    messages = [about("a", version) for version in range(10 * SUPERSEDED)]
    for message in messages:
        send(session, message)
    assert len(session._sent) <= SUPERSEDED + 1
    assert session.acknowledge(messages[0].id) is None
    late, newest = session.acknowledge(messages[-2].id), session.acknowledge(messages[-1].id)
    assert late is not None
    assert newest is not None
    assert (late.version, newest.version) == (10 * SUPERSEDED - 2, 10 * SUPERSEDED - 1)
    assert not session._sent
    assert not session._superseded


def test_what_is_settled_takes_no_room_of_late_acknowledgements(
    session: NodeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_session, "SUPERSEDED", 2)
    given_up, late, settled = about("c", 1, "response", kind="configmap"), about("a", 1), about("b", 1)
    for message in (given_up, late, about("a", 2), settled, about("b", 2)):
        send(session, message)
    session.acknowledge(settled.id)
    for round_ in range(6):
        sent(session, RESEND * round_)
    for version in (1, 2):
        send(session, about("d", version), RESEND * 5)
    assert session.acknowledge(late.id)


def test_the_end_of_one_object_forgets_nothing_of_another(session: NodeSession) -> None:
    """A late acknowledgement of an earlier version counts: it may be the last that the node can send."""
    others = [about("b", version) for version in (1, 2)]
    for message in (*others, about("a", 5), about("a", 6), about("a", 7, "delete")):
        session.offer(message)
        sent(session)
    late = session.acknowledge(others[0].id)
    assert late is not None
    assert (late.key, late.version) == ("uid-b", 1)


def test_answers_to_who_acknowledges_nothing_are_bounded(session: NodeSession) -> None:
    offers = [session.offer(about(f"c{number}", 1, "response", kind="configmap")) for number in range(WAITING + 10)]
    assert offers.count(OfferResult.NO_ROOM) == 10
    assert session.offer(about("p", 1)) is OfferResult.QUEUED, "what the cloud itself wants to say has room"
    sent(session)
    assert session.offer(about("c", 1, "response", kind="configmap")) is OfferResult.QUEUED


def test_only_the_newest_version_is_pending(session: NodeSession) -> None:
    first, second = about("a", 1), about("a", 2)
    assert send(session, first) == [first.id]
    assert session.offer(second) is OfferResult.QUEUED
    assert session.offer(about("a", 1)) is OfferResult.ON_ITS_WAY
    assert sent(session) == [second.id]
    session.acknowledge(first.id)
    assert len(session) == 1, "the second is still to be acknowledged"
    session.acknowledge(second.id)
    assert session.offer(about("a", 2)) is OfferResult.ACKNOWLEDGED


def test_another_part_of_an_object_is_sent_in_the_same_version(session: NodeSession) -> None:
    """A node gets the endpoints of its node group, and other ones when it is in another group."""

    def part(version: int, *addresses: str) -> Message:
        message = about("a", version, kind="endpointslice")
        return message.with_content({**message.content, "endpoints": [*addresses]})

    first = part(7, "10.0.0.1")
    session.offer(first)
    assert session.offer(part(7, "10.0.0.1")) is OfferResult.ON_ITS_WAY, "the same part waits already"
    assert session.offer(part(6, "10.0.0.2")) is OfferResult.ON_ITS_WAY
    second = part(7, "10.0.0.2")
    assert session.offer(second) is OfferResult.QUEUED
    assert sent(session) == [second.id]
    session.acknowledge(second.id)
    assert session.offer(part(6, "10.0.0.1")) is OfferResult.ACKNOWLEDGED
    third = part(7, "10.0.0.1")
    assert session.offer(third) is OfferResult.QUEUED
    assert sent(session) == [third.id]
    assert session.acknowledge(third.id) is not None


def test_objects_that_the_node_has_are_not_sent_again(session: NodeSession) -> None:
    message = about("a", 7)
    send(session, message)
    session.acknowledge(message.id)
    assert session.offer(about("a", 7)) is OfferResult.ACKNOWLEDGED
    assert session.offer(about("a", 8)) is OfferResult.QUEUED


def test_an_answer_of_an_older_version_takes_nothing_back(session: NodeSession) -> None:
    """The node keeps the newer object when it acknowledges such an answer."""
    for message in (about("a", 5, kind="configmap"), about("a", 3, "response", kind="configmap")):
        session.offer(message)
        session.acknowledge(sent(session)[0])
    assert session.offer(about("a", 4, kind="configmap")) == OfferResult.ACKNOWLEDGED


def test_an_older_answer_that_is_acknowledged_leaves_the_newer_message_to_be(session: NodeSession) -> None:
    """Else the node would get that version again."""
    newer, newest, answer = (about("a", version, kind="configmap") for version in (5, 6, 3))
    for message in (newer, newest, answer.with_route(operation="response")):
        send(session, message)
    session.acknowledge(answer.id)
    assert session.acknowledge(newer.id) is not None


def test_a_message_without_a_version_is_dropped_unless_it_is_a_deletion(session: NodeSession) -> None:
    assert session.offer(about("a", -1)) is OfferResult.NO_VERSION
    assert session.offer(about("a", -1, "delete")) is OfferResult.QUEUED


def test_an_acknowledged_deletion_forgets_the_object(session: NodeSession) -> None:
    for message in (about("a", 1), about("a", 2, "delete")):
        send(session, message)
        session.acknowledge(message.id)
    assert session.offer(about("a", 1)) is OfferResult.QUEUED
    deletion = about("c", 2, "delete", kind="configmap")
    send(session, deletion)
    session.acknowledge(deletion.id)
    assert not session._deletions


def test_nothing_follows_a_deletion_of_the_same_object(session: NodeSession) -> None:
    session.offer(about("a", 2, "delete"))
    assert session.offer(about("a", 3)) is OfferResult.ON_ITS_WAY
    assert session.offer(about("a", 3, "delete")) is OfferResult.ON_ITS_WAY


def test_an_acknowledgement_from_before_a_deletion_does_not_count_after_it(session: NodeSession) -> None:
    """A device model is deleted with the last of its devices, and comes back in the same version with the next one;
    the node would never get it (simulation, cloud with lockouts, seed 41058).
    """
    first, deletion, again = (about("a", 7, operation, "devicemodel") for operation in ("update", "delete", "update"))
    for message in (first, deletion):
        assert send(session, message) == [message.id]
    assert session.acknowledge(first.id) is None
    assert session.acknowledge(deletion.id)
    assert session.offer(again) is OfferResult.QUEUED
    assert sent(session) == [again.id]


def test_a_resent_deletion_cannot_take_away_a_successor_of_the_same_name(session: NodeSession) -> None:
    session.offer(about("a", 2, "delete", kind="configmap"))
    successor = about("a", 3, "insert", kind="configmap", uid="new")
    assert send(session, successor) == [successor.id]


def test_a_pod_and_its_successor_are_both_reported(session: NodeSession) -> None:
    """An edge deletes pods by uid, so both messages are needed."""
    deletion, successor = about("a", 2, "delete"), about("a", 3, "insert", uid="new")
    session.offer(deletion)
    assert send(session, successor) == [deletion.id, successor.id]


def test_one_object_that_is_never_acknowledged_holds_up_no_other(session: NodeSession) -> None:
    stuck = about("stuck", 1)
    send(session, stuck)
    other = about("other", 2)
    assert send(session, other) == [other.id]


def test_at_most_a_window_is_under_way() -> None:
    session = NodeSession(RESEND, window=2)
    messages = [about(str(number), number) for number in range(3)]
    for message in messages:
        session.offer(message)
    assert sent(session) == [messages[0].id, messages[1].id]
    session.acknowledge(messages[0].id)
    assert sent(session) == [messages[2].id]


def test_every_query_is_answered_even_with_a_known_version(session: NodeSession) -> None:
    answers = [about("a", 1, "response", kind="configmap") for _ in range(2)]
    for answer in answers:
        assert session.offer(answer) is OfferResult.QUEUED
    assert sent(session) == [answer.id for answer in answers]
    session.acknowledge(answers[0].id)
    assert session.offer(about("a", 1, kind="configmap")) is OfferResult.ACKNOWLEDGED


class AnyOrder(RuleBasedStateMachine):
    """Whatever is lost, repeated and reordered, the node ends with the newest version of each object."""

    def __init__(self) -> None:
        super().__init__()
        self.session = NodeSession(RESEND, window=2)
        self.now = 0.0
        self.newest: dict[str, int] = {}
        self.wire: list[Message] = []
        self.node: dict[str, int] = {}
        self.version = 0

    @rule(name=st.sampled_from("abc"))
    def change(self, name: str) -> None:
        self.version += 1
        self.newest[name] = self.version
        self.session.offer(about(name, self.version))

    @rule()
    def transmit(self) -> None:
        self.now += 1
        self.wire += (*self.session.overdue(self.now), *self.session.due(self.now))

    @precondition(lambda self: self.wire)
    @rule(data=st.data(), acknowledged=st.booleans())
    def receive(self, data: st.DataObject, acknowledged: bool) -> None:
        message = self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1)))
        self.store(message)
        if acknowledged:
            self.session.acknowledge(message.id)

    @rule()
    def lose_the_link(self) -> None:
        """Everything starts over, with these messages to send."""
        self.wire.clear()
        self.session = NodeSession(RESEND, window=2)
        for name, version in self.newest.items():
            self.session.offer(about(name, version))

    def store(self, message: Message) -> None:
        name = message.content["metadata"]["name"]
        self.node[name] = max(self.node.get(name, 0), int(message.header.resourceversion))

    @precondition(lambda self: self.newest)
    @rule(data=st.data())
    def offer_again(self, data: st.DataObject) -> None:
        """What counts as acknowledged was received."""
        name = data.draw(st.sampled_from(sorted(self.newest)))
        if self.session.offer(about(name, self.newest[name])) is OfferResult.ACKNOWLEDGED:
            assert self.node.get(name) == self.newest[name]

    def teardown(self) -> None:
        for _ in range(20):
            self.now += RESEND
            for message in (*self.session.overdue(self.now), *self.session.due(self.now)):
                self.store(message)
                self.session.acknowledge(message.id)
        assert self.node == self.newest
        assert len(self.session) == 0


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
