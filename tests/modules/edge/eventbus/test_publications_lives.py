"""The queue of publications over random lives: its books are right, and each publication is answered once."""

from random import Random

import pytest

from modules.edge.eventbus.publications import WINDOW, Publications, QueuedMessage


@pytest.mark.parametrize("seed", range(8))
def test_sizes_bounds_and_answers(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - reproducible on purpose
    queue = Publications(most=20, most_bytes=400, most_age=50.0)
    put, answered, flying, now = 0, list[str](), list[int](), 0.0
    for _ in range(2000):
        now += draw.choice((0.0, 1.0))
        match draw.randrange(6):
            case 0 | 1:
                topic = draw.choice(("a/twin/update/delta", "b/twin/get/result", "plain"))
                payload = b"x" * draw.choice((1, 30, 500))
                queue.put(QueuedMessage(topic, payload, now, answered.append))
                put += 1
            case 2 | 3:
                if (found := queue.next(now)) is not None:
                    flying.append(found[0])
                    assert found[1].at + 50.0 >= now
            case 4 if flying:
                queue.acknowledged(flying.pop(0))
            case 5 if draw.random() < 0.1:
                queue.connection_lost()
                flying.clear()
        assert queue.size == sum(one.size for one in queue._waiting.values())
        assert list(queue._flying) == flying
        assert len(flying) <= WINDOW
        assert put == len(answered) + len(queue) + len(flying)
    assert put > 500


def test_a_large_publication_may_be_alone_and_one_of_the_longest_age_leaves() -> None:
    queue, answered = Publications(most_bytes=10, most_age=5.0), list[str]()
    queue.put(QueuedMessage("t", b"x" * 100, 0.0, answered.append))
    assert queue.next(5.0) is not None
    assert answered == []
