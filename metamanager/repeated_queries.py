"""Queries of the cloud about stored objects that its list lacks, until it has decided on each."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from beehive import BeehiveError, Group, Message, Module, ModuleName, Timer
from metamanager import answers
from metamanager.errors import CallError, is_gone
from metamanager.remote_query import Question

FIRST_DELAY: Final = 30.0
"""Seconds after which an object is queried again about which the cloud has not decided; the delay doubles."""
LONGEST_DELAY: Final = 3600.0

T = TypeVar("T")
Decided = Callable[[T, CallError | None], None]
"""Takes an object about which the cloud has decided, and its refusal, if it is one."""


class RepeatedQueries(Generic[T]):
    """The queries for objects of a list, one at a time.

    Without an answer, or after a temporary failure, such as of a cloud whose disk is full, an object is queried again
    later: the cloud has given its list, and gives the next one only to another connection.

    Args:
        module: sends the queries.
        seconds: time that the cloud has for each answer.
        question: returns the query for an object.
        decided: called with each object about which the cloud has decided.
    """

    def __init__(self, module: Module, seconds: float, question: Callable[[T], Question], decided: Decided[T]) -> None:
        self._module = module
        self._seconds = seconds
        self._question = question
        self._decided = decided
        self._queue: deque[T] = deque()
        self._asked: T | None = None
        """The object that is queried, if it is to be queried again without a decision."""
        self._busy = False
        self._pause: Timer | None = None
        self._delay = FIRST_DELAY

    @property
    def undecided(self) -> Sequence[T]:
        """The objects about which the cloud has not decided yet."""
        return [*self._queue, *([] if self._asked is None else [self._asked])]

    def ask(self, objects: Iterable[T]) -> None:
        """Query objects, instead of those of an older list."""
        self.cancel()
        self._queue.extend(objects)
        self._next()

    def cancel(self) -> None:
        """Drop the remaining queries: the link has ended, and the next list starts over."""
        self._queue.clear()
        self._asked = None
        self._delay = FIRST_DELAY
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def drop(self, is_deleted: Callable[[T], bool]) -> None:
        """Drop the queries for objects that the cloud has deleted by a message."""
        self._queue = deque(each for each in self._queue if not is_deleted(each))
        if self._asked is not None and is_deleted(self._asked):
            self._asked = None

    def _next(self) -> None:
        if self._busy or self._pause is not None or not self._queue:
            return
        self._busy = True
        each = self._asked = self._queue.popleft()
        question = self._question(each)
        message = self._module.message(
            question.resource, question.operation, question.content, source=ModuleName.EDGED, group=Group.META
        )

        def answered(result: Message | BeehiveError) -> None:
            if question.acknowledges and isinstance(result, Message) and not answers.is_from_hub(result):
                self._module.broadcast(Group.HUB, result.reply(self._module.clock))
            self._answered(each, result)

        self._module.request(ModuleName.EDGEHUB, message, self._seconds, answered)

    def _answered(self, each: T, result: Message | BeehiveError) -> None:
        asked, self._asked = self._asked, None
        self._busy = False
        refusal = refusal_in(result)
        if refusal is None or not refusal.retryable or is_gone(refusal):
            self._delay = FIRST_DELAY
            self._decided(each, refusal)
        elif asked is not None:
            self._queue.append(each)  # after the others, about which the cloud may decide
            self._pause = self._module.after(self._delay, self._resume)
            self._delay = min(2 * self._delay, LONGEST_DELAY)
        self._next()

    def _resume(self) -> None:
        self._pause = None
        self._next()


def refusal_in(answer: Message | BeehiveError) -> CallError | None:
    """Return the error in the answer to a query, or that there was no answer; None if the cloud has the object."""
    if not isinstance(answer, Message):
        return answers.no_answer(answer, "an object that the cloud's list lacks")
    try:
        answers.read_object_or_ok(answer)
    except CallError as error:
        return error
    return None
