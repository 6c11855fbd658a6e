"""The memory of large messages is bounded, each message ends, and small ones do not wait."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode, Frame, Opcode
from websockets.sync.client import ClientConnection

from beehive.codec import encode
from beehive.message import Message
from modules.cloud.websocket.message_budget import FINISHING_SECONDS, FREE_BYTES, MessageBudget
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.websocket.test_fairness import CLOCK, Served, frame
from tests.support.patience import PATIENCE

MOST = 1024 * 1024
LARGE = 3 * MOST
READ = 16 * 1024


def test_a_connection_is_a_member_as_long_as_something_of_it_counts() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    for end in (lambda: budget.keep("one", 0, 0, 1.0), lambda: budget.forget("one")):
        budget.keep("one", 500, 0, 0.0)
        assert budget.members == {"one"}
        end()
        assert not budget.members


def test_a_connection_may_grow_while_as_much_is_left() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    budget.keep("oldest", 11, 0, 0.0)
    assert budget.keep("large", 509, 0, 0.0)
    assert budget.may_grow("large"), "it keeps 499 beside 1, and 500 are left"
    assert budget.keep("large", 510, 0, 0.0)
    assert not budget.may_grow("large")


def test_small_messages_are_read_although_the_budget_is_used_up() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    budget.keep("large", 1010, 0, 0.0)
    budget.keep("another", 500, 0, 0.0)
    budget.keep("small", 10, 0, 0.0)
    budget.keep("waiting", 4, 6, 0.0)
    grows = {name: budget.may_grow(name) for name in ("large", "another", "small", "waiting")}
    assert grows == {"large": True, "another": False, "small": True, "waiting": True}, "the oldest goes on"


@pytest.mark.parametrize("end", ["finish", "forget"])
def test_the_next_goes_on_when_the_oldest_has_ended(end: str) -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    for number, name in enumerate(("a", "b", "c")):
        budget.keep(name, 900, 0, float(number))
    assert [budget.may_grow(name) for name in ("a", "b", "c")] == [True, False, False]
    assert budget.resumable() == []
    getattr(budget, end)("a")
    assert budget.resumable() == ["b"]
    assert budget.resumable() == [], "it was told"
    assert budget.may_grow("b")
    assert budget.resumable() == []


def test_an_unfinished_message_has_a_deadline_while_another_is_stopped() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    budget.keep("slow", 900, 0, 0.0)
    assert list(budget.overdue(1000.0)) == [], "nobody waits for it"
    budget.keep("b", 900, 0, 1000.0)
    assert not budget.may_grow("b")
    assert next(budget.overdue(1000.0)) == "slow"
    budget.forget("slow")
    assert budget.resumable() == ["b"]
    assert list(budget.overdue(1030.0)) == []


def test_a_connection_goes_on_when_complete_messages_of_others_were_delivered() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    budget.keep("complete", 0, 900, 0.0)
    budget.keep("oldest", 11, 0, 0.0)
    budget.keep("stopped", 200, 0, 0.0)
    assert not budget.may_grow("stopped")
    budget.keep("complete", 0, 0, 1.0)
    assert budget.resumable() == ["stopped"]


def test_a_message_that_grows_is_as_old_as_its_beginning() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    budget.keep("slow", 900, 0, 0.0)
    budget.keep("slow", 950, 0, 25.0)
    budget.keep("b", 900, 0, 25.0)
    assert not budget.may_grow("b")
    assert next(budget.overdue(31.0), None) == "slow"


def test_all_that_use_up_the_budget_together_end_together() -> None:
    budget: MessageBudget[str] = MessageBudget(1000, 10, 30.0)
    hostile = [f"hostile{number}" for number in range(9)]
    for name in hostile:
        budget.keep(name, 110, 0, 0.0)
    budget.keep("node", 110, 0, 29.0)
    assert not any(budget.may_grow(name) for name in (*hostile[1:], "node"))
    assert list(budget.overdue(30.0)) == []
    ended = []
    for name in budget.overdue(30.1):
        budget.forget(name)
        ended.append(name)
    assert ended == hostile[:5], "until half is free"
    assert budget.resumable() == [*hostile[5:], "node"]


def test_only_a_jump_is_beyond_the_budget() -> None:
    budget: MessageBudget[str] = MessageBudget(1_000_000, 0, 30.0)
    assert budget.keep("oldest", 2_000_000, 0, 0.0), "it may always grow"
    assert budget.keep("read", READ, 0, 0.0)
    assert not budget.keep("compressed", 500_000, 0, 0.0)
    assert not budget.keep("compressed and complete", 0, 500_000, 0.0)


_STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30), st.booleans()), max_size=200)


@given(_STEPS)
def test_the_budget_holds_and_there_is_no_deadlock(steps: list[tuple[int, int, bool]]) -> None:
    """Each connection reads at most 30 bytes in a step, and only if it may."""
    budget: MessageBudget[int] = MessageBudget(1000, 10, 30.0)
    sizes = dict.fromkeys(range(8), 0)
    for number, (member, read, ends) in enumerate(steps):
        now = float(number)
        if budget.may_grow(member):
            sizes[member] = 0 if ends or sizes[member] > 2000 else sizes[member] + read
            assert budget.keep(member, sizes[member], 0, now)
        assert budget.counted_bytes == sum(max(0, size - 10) for size in sizes.values())
        assert budget.counted_bytes <= 1000 + 8 * 30 + 2030
        assert any(budget.may_grow(each) for each in sizes if sizes[each]) or not any(sizes.values())


class Stopped(Served):
    """The server with a budget of one mebibyte."""

    most_message_bytes = MOST

    @property
    def kept(self) -> int:
        return sum(each.unfinished_bytes + each.unread_bytes for each in list(self.server._connections.values()))

    def whole(self, message: bytes) -> str:
        """The node whose message lacks only its last byte, or none."""
        connections = list(self.server._connections.values())
        return next((each.node for each in connections if each.unfinished_bytes == len(message) - 1), "")

    @property
    def stopped(self) -> set[str]:
        return {each.node for each in list(self.server._incoming._budget._stopped)}


@pytest.fixture
def served() -> Iterator[Stopped]:
    started = Stopped()
    yield started
    started.server.stop()


def large() -> bytes:
    """A message as it is sent."""
    text = encode(Message.new(CLOCK, source="edged", resource="a/event/b", operation="insert", content="x" * LARGE))
    return Frame(Opcode.TEXT, text).serialize(mask=True)


@contextmanager
def sending(node: ClientConnection, data: bytes) -> Iterator[None]:
    """A thread sends bytes, until the end of the connection at most."""

    def send() -> None:
        with suppress(OSError):
            node.socket.sendall(data)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        with suppress(OSError):
            node.socket.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def test_all_large_messages_arrive_one_after_another(served: Stopped) -> None:
    """No two connections wait for each other."""
    names = {f"large{number}" for number in range(5)}
    message = large()
    with ExitStack() as stack:
        modest = stack.enter_context(served.node("modest"))
        nodes = {name: stack.enter_context(served.node(name, compression=None)) for name in names}
        for node in nodes.values():
            stack.enter_context(sending(node, message[:-1]))
        for left in range(len(nodes) - 1, -1, -1):
            wait_until(lambda: served.whole(message) != "", "one has sent all but its end")
            wait_until(lambda wanted=left: len(served.stopped) == wanted, "the others wait")  # type: ignore[misc]
            assert served.kept <= MOST + LARGE + len(names) * (FREE_BYTES + 2 * READ)
            modest.send(frame(left))
            wait_until(lambda wanted=left: wanted in served.of("modest"), "a small one waits for none")  # type: ignore[misc]
            whole = served.whole(message)
            nodes[whole].socket.sendall(message[-1:])
            wait_until(lambda node=whole: len(served.of(node)) == 1, "it has come")  # type: ignore[misc]
    assert {name for name, _ in served.came} == names | {"modest"}


def test_a_message_that_is_not_finished_ends_its_connection_when_others_wait(served: Stopped) -> None:
    message = large()
    with ExitStack() as stack:
        slow, following = (stack.enter_context(served.node(name, compression=None)) for name in ("slow", "next"))
        stack.enter_context(sending(slow, message[:-1]))
        wait_until(lambda: served.whole(message) == "slow", "it lacks its end")
        stack.enter_context(sending(following, message))
        wait_until(lambda: served.stopped == {"next"}, "the other waits")
        served.clock.go(FINISHING_SECONDS + 1)
        with pytest.raises(ConnectionClosed) as ended:
            slow.recv(PATIENCE)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == CloseCode.TRY_AGAIN_LATER
        assert "was not complete after 30 s" in ended.value.rcvd.reason
        wait_until(lambda: len(served.of("next")) == 1, "the other's has come")


@pytest.mark.parametrize("fin", [True, False])
def test_a_compressed_message_beyond_the_budget_ends_its_connection(served: Stopped, fin: bool) -> None:
    """It is large only when it has been read."""
    message = large()
    with ExitStack() as stack:
        first = stack.enter_context(served.node("first", compression=None))
        second = stack.enter_context(served.node("second"))
        stack.enter_context(sending(first, message[:-1]))
        wait_until(lambda: served.whole(message) == "first", "the budget is used up")
        assert second.protocol.extensions, "it may compress"
        served.full.set()
        with pytest.raises(ConnectionClosed) as ended:  # perhaps before its last fragment is sent
            second.send(b"0" * MOST if fin else iter([b"0" * MOST, b"0"]), text=True)
            second.recv(PATIENCE)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == CloseCode.TRY_AGAIN_LATER
        assert served.kept <= LARGE + MOST
