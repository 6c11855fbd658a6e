"""What is remembered by text: nothing that a peer could fill the memory with."""

from beehive.cache import LONGEST, cached_for_short_texts
from beehive.handlers import HandlerTable
from beehive.message import Message, Route
from beehive.resource import Side


def test_long_texts_are_worked_out_each_time() -> None:
    calls = []

    @cached_for_short_texts(8)
    def size(text: str, *, extra: str = "") -> int:
        calls.append(text)
        return len(text) + len(extra)

    for text, times in (("short", 1), ("x" * LONGEST, 1), ("x" * (LONGEST + 1), 2)):
        calls.clear()
        assert size(text) == size(text) == len(text)
        assert len(calls) == times
    calls.clear()
    assert size("a", extra="b" * LONGEST) == size("a", extra="b" * LONGEST) == LONGEST + 1
    assert len(calls) == 2


def test_a_table_of_handlers_keeps_no_long_resource() -> None:
    table = HandlerTable(object, Side.EDGE)
    for number in range(50):
        assert table.find(Message(route=Route(resource=f"default/{number}{'x' * 2_000}/a"))) is None
    assert not table.known
    assert table.find(Message(route=Route(resource="default/pod/a"))) is None
    assert len(table.known) == 1
