"""When the cloud is asked again about an object."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from beehive import BeehiveError, Message, Operation, RealClock, RequestTimeoutError
from beehive.names import OK
from metamanager.remote_query import Question
from metamanager.repeated_queries import FIRST_DELAY, RepeatedQueries

Answer = Callable[[Message | BeehiveError], None]


class Cloud:
    """A module's cloud, which answers, or is silent, as the test says."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._asked: list[tuple[str, Answer]] = []
        self._again: Callable[[], None] = lambda: None
        module: Any = SimpleNamespace(
            message=lambda resource, *_, **__: resource,
            request=lambda _hub, resource, _seconds, answered: self._asked.append((resource, answered)),
            after=self._after,
        )
        self.queries = RepeatedQueries[str](module, 9.0, lambda each: Question(each, Operation.QUERY), lambda *_: None)

    def _after(self, seconds: float, then: Callable[[], None]) -> SimpleNamespace:
        self.delays.append(seconds)
        self._again = then
        return SimpleNamespace(cancel=lambda: setattr(self, "_again", lambda: None))

    @property
    def asked(self) -> list[str]:
        """What it is asked about now."""
        return [resource for resource, _ in self._asked]

    def fail(self) -> None:
        """Let the time of the open query pass; the next one waits."""
        [(resource, answered)] = self._asked
        self._asked.clear()
        answered(RequestTimeoutError(resource, 9.0))

    def answer(self, *, is_silent: bool) -> str:
        """Answer the open query, or let its time pass, and then that until the next; return what it was about."""
        [(resource, answered)] = self._asked
        self._asked.clear()
        pauses = len(self.delays)
        found = Message.new(RealClock(), source="edgecontroller", resource=resource, operation="response", content=OK)
        answered(RequestTimeoutError(resource, 9.0) if is_silent else found)
        if len(self.delays) > pauses:
            self._again()
        return resource


def test_after_a_decision_the_cloud_is_asked_again_as_early_as_at_first() -> None:
    """It answers: what it could not say of one object it may say of the next."""
    cloud = Cloud()
    cloud.queries.ask(["a", "b"])
    told = [cloud.answer(is_silent=is_silent) for is_silent in (True, True, True, False, True)]
    assert told == ["a", "b", "a", "b", "a"]
    assert cloud.delays == [FIRST_DELAY * factor for factor in (1, 2, 4, 1)]


def test_each_list_begins_with_the_first_delay() -> None:
    cloud = Cloud()
    for _ in range(2):
        cloud.queries.ask(["a"])
        for is_silent in (True, True, False):
            cloud.answer(is_silent=is_silent)
    cloud.queries.ask(["a"])
    cloud.answer(is_silent=True)
    cloud.queries.ask(["b"])
    assert [cloud.answer(is_silent=True) for _ in range(2)] == ["a", "b"]
    assert cloud.delays == [FIRST_DELAY * factor for factor in (1, 2, 1, 2, 1, 1)]


def test_the_queries_of_a_new_list_wait_for_no_pause_of_the_one_before() -> None:
    """It would be up to an hour."""
    cloud = Cloud()
    cloud.queries.ask(["a"])
    cloud.fail()
    assert cloud.asked == []
    cloud.queries.cancel()
    cloud.queries.ask(["b"])
    assert cloud.asked == ["b"]
    cloud._again()
    assert cloud.asked == ["b"], "the pause has been cancelled"
