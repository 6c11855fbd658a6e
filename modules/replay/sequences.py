"""Recorded answers, by the role of what was asked: the same question, the same number among its like.

Questions that only look (a list, a status, a query) may be asked more or less often than in the recorded run without
anything being wrong: timers have jitter. They get the answer that was given at that time; what changes something gets
its answers in their order.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

NEAR = 1.0
"""Seconds that a recorded look may lie ahead to be the one that is made now."""
LATE = 0.25
"""Seconds that it may lie back."""


class Answer(NamedTuple, Generic[T]):
    """One recorded answer."""

    begin: float
    """When it was asked for."""
    end: float
    """When it was there; infinite when it never came."""
    value: T


class Sequences(Generic[T]):
    """See the module's docstring."""

    def __init__(self, answers: Iterable[tuple[Hashable, Answer[T]]]) -> None:
        self._answers: dict[Hashable, list[Answer[T]]] = {}
        self._next: dict[Hashable, int] = {}
        for key, answer in answers:
            self._answers.setdefault(key, []).append(answer)

    def change(self, key: Hashable) -> Answer[T] | None:
        """The next answer; None when there are no more."""
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
    ) -> Answer[T] | None:
        """The answer of this time; None when there was none.

        Args:
            key: what was asked.
            now: when.
            since: when who asks has changed something last: what was recorded before does not show that.
            ahead: seconds that it may have been recorded later.
            seen: whether an answer may be seen already.
        """
        answers, at = self._answers.get(key, []), self._next.get(key, 0)
        while at < len(answers) and answers[at].end < max(now - LATE, since):
            at += 1
        self._next[key] = at
        if at < len(answers) and answers[at].begin <= now + ahead and seen(answers[at].value):
            self._next[key] = at + 1
            return answers[at]
        return None

    def last(self, key: Hashable, now: float, since: float = 0.0) -> Answer[T] | None:
        """The last answer that came between two moments, as if it came now; None when there was none."""
        found = [answer for answer in self._answers.get(key, []) if since <= answer.end <= now]
        return _moved(found[-1], now) if found else None

    def other(self, key: Hashable, now: float) -> Answer[T] | None:
        """The last answer before this time, or else the first, as if it came now. None when there never was one."""
        answers = self._answers.get(key, [])
        return self.last(key, now) or (_moved(answers[0], now) if answers else None)

    def look(self, key: Hashable, now: float, since: float = 0.0) -> Answer[T] | None:
        """As `near`, or else as `other`."""
        return self.near(key, now, since) or self.other(key, now)


def _moved(answer: Answer[T], now: float) -> Answer[T]:
    return answer._replace(begin=now, end=now + answer.end - answer.begin)
