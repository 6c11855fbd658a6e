"""Dead letters: the newest are kept within bounds of number and memory, all are counted."""

import threading

import msgspec

from beehive import DropReason, Header, Message, Route
from beehive.dead_letters import DeadLetter, DeadLetters


def letter(content: object, reason: DropReason = DropReason.NO_MODULE) -> DeadLetter:
    """A letter with such a content."""
    return DeadLetter(0.0, "nobody", Message(content=content), reason)


def contents(letters: DeadLetters) -> list[object]:
    """Of all that are kept."""
    return [one.message.content for one in letters]


def test_the_newest_are_kept_and_all_are_counted() -> None:
    """By reason."""
    letters = DeadLetters(capacity=3)
    for number in range(5):
        letters.add(letter(number))
    letters.add(letter("poison", DropReason.POISON))
    assert contents(letters) == [3, 4, "poison"]
    assert letters.counts == {DropReason.NO_MODULE: 5, DropReason.POISON: 1}


def test_large_contents_are_bounded_in_bytes() -> None:
    """A peer that sends megabytes to nobody does not fill the memory."""
    letters = DeadLetters(capacity_bytes=100)
    for size in (60, 30, 50):
        letters.add(letter(msgspec.Raw(b"1" * size)))
    assert [len(one) for one in contents(letters)] == [30, 50]  # type: ignore[arg-type]
    letters.add(letter(b"x" * 101))
    assert len(letters) == 0
    letters.add(letter("small"))
    assert contents(letters) == ["small"]
    assert letters.counts[DropReason.NO_MODULE] == 5


def test_names_count_as_contents_do() -> None:
    """A peer chooses them too."""
    letters = DeadLetters(capacity_bytes=10_000)
    for _ in range(100):
        letters.add(
            DeadLetter(0.0, "nobody", Message(Header(msg_id="i"), Route(resource="r" * 2000)), DropReason.POISON)
        )
    assert 0 < len(letters) < 5


def test_counts_are_exact_when_threads_add() -> None:
    """Stress."""
    letters = DeadLetters()

    def add() -> None:
        for _ in range(2000):
            letters.add(letter(None))

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert letters.counts == {DropReason.NO_MODULE: 12_000}
    assert len(letters) == 1000
