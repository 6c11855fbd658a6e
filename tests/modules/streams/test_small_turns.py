"""Turns of streams that move few bytes, in a time that the test makes."""

from modules.streams.small_turns import SMALL_BYTES, SmallTurns


def test_streams_have_turns_in_their_order() -> None:
    """Ten at a time, then a hundred a second, whoever asks."""
    turns = SmallTurns(rate=100, burst=10)
    waits = [round(turns.charge(1, 50.0), 6) for _ in range(13)]
    assert waits == [0.0] * 10 + [0.01, 0.02, 0.03]
    assert round(turns.charge(1, 50.03), 6) == 0.01
    assert [turns.charge(1, 60.0) for _ in range(10)] == [0.0] * 10
    assert turns.charge(1, 60.0) > 0.0, "silence gathers no more than that"


def test_many_bytes_wait_for_nobody() -> None:
    turns = SmallTurns(rate=100, burst=1)
    assert [turns.charge(SMALL_BYTES, 1.0) for _ in range(5)] == [0.0] * 5
    assert [round(turns.charge(0, 1.0), 6) for _ in range(2)] == [0.0, 0.01]


def test_a_turn_may_count_for_several() -> None:
    """So it needs as many bytes to count for none."""
    turns = SmallTurns(rate=100, burst=1)
    assert turns.charge(4 * SMALL_BYTES, 1.0, 4) == 0.0
    assert round(turns.charge(4 * SMALL_BYTES - 1, 1.0, 4), 6) == 0.03
