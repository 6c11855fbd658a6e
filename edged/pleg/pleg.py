"""Looks at the runtime and tells edged which pods changed, with their facts: pods of which an event has spoken at once,
and all pods now and then, in two calls however many they are.

Workers look themselves at what they have just done and note it down (`Hints.observe`), so that the next relist does not
report it a second time: a change is reported when it is made, not at the next relist.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from beehive import Actor
from beehive.clock import Timer
from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from edged.pleg.hints import Hints
from edged.pleg.messages import (
    Event,
    Heard,
    LookAround,
    Looked,
    Relisted,
    RelistFailed,
    Seen,
    StreamAsked,
    StreamBroke,
    StreamOpened,
)
from edged.pleg.pace import Pace
from edged.pleg.reader import Glance, RuntimeReader, changed_pods, glance_of, is_same
from edged.pods.model import PodFacts, PodRef, PodUid

_log = logging.getLogger(__name__)

MOST_LOOKS = 4
"""Pods that are looked at one by one in a round, in two calls each; for more of them a relist costs less."""

_RUNTIME_AWAY = (UnavailableError, DeadlineExceededError)
"""Errors after which the other pods need not be tried."""


class _Relist(NamedTuple):
    """List everything. Of two that were called for only the later one counts."""

    number: int


class _Round(NamedTuple):
    """Look at what there are hints of, if that is due."""


class Pleg(Actor):
    """Pod life-cycle event generator.

    Args:
        reader: of the runtime.
        tell: takes each event; must not block.
        pace: says how soon a relist follows the last one.
        hints: what the runtime's events have said, and what workers saw.
    """

    def __init__(self, reader: RuntimeReader, tell: Callable[[Event], None], pace: Pace, hints: Hints) -> None:
        super().__init__()
        self._reader = reader
        self._tell = tell
        self._pace = pace
        self._hints = hints
        self._known: dict[PodUid, Glance] = {}
        self._known_at: dict[PodUid, float] = {}
        self._number = 0
        self._timer: Timer | None = None
        self._last_relist: float | None = None
        self._last_round = float("-inf")
        self._next_round = float("inf")

    def on_start(self) -> None:
        """Look at once."""
        self.actor_ref.tell(_Relist(self._number))

    def on_receive(self, message: object) -> None:
        """Look, or take notice of the stream."""
        match message:
            case _Relist(number):
                if number == self._number:
                    self._relist()
            case Heard():
                self._look_where_hinted()
            case _Round():
                self._next_round = float("inf")
                self._look_where_hinted()
            case LookAround():
                self._pace.hurry()
                self._set_timer()
            case StreamAsked():
                self._pace.asked(self.clock.monotonic())
            case StreamOpened():
                self._pace.opened(self.clock.monotonic())
            case StreamBroke():
                self._pace.broke()
                self._set_timer()

    def _set_timer(self) -> None:
        """Let the next relist come when the pace wants it, and no other that was meant to come before."""
        if self._last_relist is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._number += 1
        due, now = _Relist(self._number), self.clock.monotonic()
        wait = max(0.0, self._last_relist + self._pace.period(now) - now)
        self._timer = self.clock.after(wait, lambda: self._tell_self(due))

    def _tell_self(self, message: _Relist | _Round) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(message)

    def _take_observations(self) -> None:
        for observed in self._hints.observations():
            facts, uid = observed.facts, observed.facts.ref.uid
            if observed.at >= self._known_at.get(uid, float("-inf")):
                there = facts.sandboxes or facts.containers
                self._note(uid, glance_of(facts, observed.owner) if there else None, observed.at)

    def _look_where_hinted(self) -> None:
        due, now = self._hints.due(self._last_round), self.clock.monotonic()
        if due is None:
            return
        if due > now:
            self._set_round(due)
            return
        self._last_round = now
        self._take_observations()
        refs, everything = self._hints.take()
        if everything or len(refs) > MOST_LOOKS:
            self._relist()
        else:
            self._look_at(refs)

    def _set_round(self, due: float) -> None:
        if due < self._next_round:
            self._next_round = due
            self.clock.after(due - self.clock.monotonic(), lambda: self._tell_self(_Round()))

    def _look_at(self, refs: list[PodRef]) -> None:
        """Look at some pods; when that fails for one, all are left to a relist that comes soon."""
        for ref in refs:
            if not self._look(ref):
                self._pace.hurry()
                self._set_timer()
                return

    def _look(self, ref: PodRef) -> bool:
        """Look at one pod; False when not all could be seen."""
        begin = self.clock.monotonic()
        try:
            glance = self._reader.glance(ref)
            if is_same(self._known.get(ref.uid), glance):
                return True
            seen = self._see(ref, glance, begin)
        except CriError as error:
            self._tell(RelistFailed(error))
            return False
        if seen is not None:
            self._tell(Looked(seen))
        return seen is not None

    def _relist(self) -> None:
        begin = self.clock.monotonic()
        self._take_observations()
        announced = self._hints.announced()
        self._hints.take()
        try:
            now = self._reader.glances()
        except CriError as error:
            self._tell(RelistFailed(error))
            self._pace.hurry()
        else:
            changed = changed_pods(self._known, now)
            seen = self._see_all(changed, now, begin)
            self._tell(Relisted(tuple(seen), now, begin))
            uids = frozenset(ref.uid for ref in changed)
            self._judge(self._pace.relisted(begin, uids, announced, whole=len(seen) == len(changed)))
        self._last_relist = self.clock.monotonic()
        self._set_timer()

    def _see_all(self, changed: list[PodRef], now: dict[PodUid, Glance], begin: float) -> list[Seen]:
        found = []
        for ref in changed:
            try:
                seen = self._see(ref, now.get(ref.uid), begin)
            except CriError as error:
                self._tell(RelistFailed(error))
                if isinstance(error, _RUNTIME_AWAY):
                    break
                continue
            if seen is not None:
                found.append(seen)
        return found

    def _see(self, ref: PodRef, glance: Glance | None, begin: float) -> Seen | None:
        """What one pod is like; None when something was removed since the glance, and what came in its place is not to
        be seen yet: the pod counts as changed until the next look, which sees both.
        """
        facts = self._reader.facts(glance) if glance is not None else PodFacts(ref)
        if glance is not None and not _is_whole(facts, glance):
            return None
        self._note(ref.uid, glance, begin)
        return Seen(facts, begin)

    def _note(self, uid: PodUid, glance: Glance | None, at: float) -> None:
        if glance is not None:
            self._known[uid], self._known_at[uid] = glance, at
        else:
            self._known.pop(uid, None)
            self._known_at.pop(uid, None)

    def _judge(self, missed: frozenset[PodUid]) -> None:
        if missed:
            _log.info(
                "the runtime's events have missed a change (of pod %s): listed every period for a while", min(missed)
            )


def _is_whole(facts: PodFacts, glance: Glance) -> bool:
    """Whether all was still there that the lists had named."""
    return len(facts.sandboxes) == len(glance.sandboxes) and len(facts.containers) == len(glance.containers)
