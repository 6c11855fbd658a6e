"""Recorded answers by the role of their question: the n-th question of a role gets the n-th answer.

A replay may ask questions that change nothing (a list, a status, a query) more or less often than the recorded run,
because timers have jitter. Such a question gets the answer recorded at that time. A call that changes something gets
the answers in their order.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

NEAR = 1.0
"""Seconds that a recorded answer may precede the question in the replay."""
LATE = 0.25
"""Seconds that it may follow."""


class RecordedAnswer(NamedTuple, Generic[T]):
    """One recorded answer."""

    begin: float
    """When the question was asked."""
    end: float
    """When the answer arrived; infinite if it never did."""
    value: T


class Sequences(Generic[T]):
    """Recorded answers in their order, by the role of their question.

    Args:
        answers: pairs of a role and an answer.
    """

    def __init__(self, answers: Iterable[tuple[Hashable, RecordedAnswer[T]]]) -> None:
        self._answers: dict[Hashable, list[RecordedAnswer[T]]] = {}
        self._next: dict[Hashable, int] = {}
        for key, answer in answers:
            self._answers.setdefault(key, []).append(answer)

    def change(self, key: Hashable) -> RecordedAnswer[T] | None:
        """Return the next answer; None after the last one."""
        answers, at = self._answers.get(key, []), self._next.get(key, 0)
        if at >= len(answers):
            return None
        self._next[key] = at + 1
        return answers[at]

    def near(
        self,
        key: Hashable,
        now: float,
        since: float = 0.0,
        *,
        ahead: float = NEAR,
        seen: Callable[[T], bool] = lambda _value: True,
    ) -> RecordedAnswer[T] | None:
        """Return the answer recorded near this time, or None.

        Args:
            key: role of the question.
            now: time of the question.
            since: time of the asker's last change; answers recorded before it do not show the change.
            ahead: seconds that the answer may have been recorded later.
            seen: whether an answer is already allowed.
        """
        answers, at = self._answers.get(key, []), self._next.get(key, 0)
        while at < len(answers) and answers[at].end < max(now - LATE, since):
            at += 1
        self._next[key] = at
        if at < len(answers) and answers[at].begin <= now + ahead and seen(answers[at].value):
            self._next[key] = at + 1
            return answers[at]
        return None

    def last(self, key: Hashable, now: float, since: float = 0.0) -> RecordedAnswer[T] | None:
        """Return the last answer between two times, moved to `now`, or None."""
        found = [answer for answer in self._answers.get(key, []) if since <= answer.end <= now]
        return _moved(found[-1], now) if found else None

    def other(self, key: Hashable, now: float) -> RecordedAnswer[T] | None:
        """Return the last answer before this time, else the first one, moved to `now`. None if there is no answer at
        all.
        """
        answers = self._answers.get(key, [])
        return self.last(key, now) or (_moved(answers[0], now) if answers else None)

    def query(self, key: Hashable, now: float, since: float = 0.0) -> RecordedAnswer[T] | None:
        """Return `near`'s answer, else `other`'s."""
        return self.near(key, now, since) or self.other(key, now)


def _moved(answer: RecordedAnswer[T], now: float) -> RecordedAnswer[T]:
    return answer._replace(begin=now, end=now + answer.end - answer.begin)
