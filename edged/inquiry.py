"""Asks the cloud about pods that run here and that a store which may be incomplete does not know.

A node whose database was lost finds its own containers and no pod that accounts for them. They are healthy pods, and
KubeEdge's cloud does not send again what the lost database had acknowledged; to take them for orphans would end them,
or end them only to start them anew. So each is asked for: what the cloud still wants is taken over as it runs, and only
what the cloud says not to know is an orphan. Without a connection they are left alone.

Lives on the edged module's thread, from the start of a node with such a store until everything is accounted for.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from beehive import Clock
from edged.pods.model import PodRef, PodUid
from metamanager.client import CallError, ConflictError, MetaTurnClient, NotFoundError

_log = logging.getLogger(__name__)

FIRST_DELAY: Final = 10.0
"""Seconds after which a pod is asked for again when there was no answer; doubles."""
LONGEST_DELAY: Final = 300.0


class _Question(msgspec.Struct):
    next_at: float = 0.0
    """Monotonic seconds."""
    delay: float = FIRST_DELAY
    busy: bool = False
    disowned: bool = False


class Inquiry:
    """See the module's docstring.

    Args:
        meta: whom is asked.
        clock: time.
        take: takes a pod that the cloud wants, as it came; False when it is not that pod after all.
    """

    def __init__(self, meta: MetaTurnClient, clock: Clock, take: Callable[[PodUid, bytes], bool]) -> None:
        self._meta = meta
        self._clock = clock
        self._take = take
        self._questions: dict[PodUid, _Question] = {}
        self._doubtful = 0

    def is_disowned(self, ref: PodRef) -> bool:
        """Whether the cloud does not want what runs of that pod; asks, when that is not known and it is time to."""
        question = self._questions.get(ref.uid)
        if question is None:
            question = self._questions[ref.uid] = _Question()
            _log.warning("pod %s runs here and is not in the store, which is new: the cloud is asked for it", ref)
        if not question.disowned:
            self._doubtful += 1
            if not question.busy and self._clock.monotonic() >= question.next_at:
                self._ask(ref, question)
        return question.disowned

    def connected(self) -> None:
        """The cloud is there: ask at the next look."""
        for question in self._questions.values():
            question.next_at, question.delay = 0.0, FIRST_DELAY

    def settled(self) -> bool:
        """Whether nothing was in doubt since this was asked last: at the end of each look at the runtime."""
        doubtful, self._doubtful = self._doubtful, 0
        return not doubtful

    def _ask(self, ref: PodRef, question: _Question) -> None:
        question.busy = True

        def answered(answer: bytes | CallError) -> None:
            question.busy = False
            if isinstance(answer, NotFoundError | ConflictError):
                question.disowned = True
            elif isinstance(answer, CallError):
                question.next_at = self._clock.monotonic() + question.delay
                question.delay = min(LONGEST_DELAY, question.delay * 2)
                _log.debug("whether the cloud wants pod %s is not known: %s", ref, answer)
            else:
                question.disowned = not self._take(ref.uid, answer)
                _log.info("pod %s: %s", ref, "the cloud has another" if question.disowned else "taken over as it runs")

        self._meta.pod(ref.namespace, ref.name, ref.uid, then=answered)
