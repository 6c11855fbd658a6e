"""Relists the runtime and tells edged which pods changed, with their facts.

Workers look themselves at what they have just done and say so here (`Observed`), so that the next relist does not
report it a second time: a change is reported when it is made, not at the next relist.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from beehive import Actor
from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from edged.pleg.reader import Glance, RuntimeReader, changed_pods, glance_of
from edged.pods.model import PodFacts, PodUid

_log = logging.getLogger(__name__)


_RUNTIME_AWAY = (UnavailableError, DeadlineExceededError)
"""Errors after which the other pods need not be tried."""


class Seen(NamedTuple):
    """What was found out about one pod."""

    facts: PodFacts
    at: float
    """When the lists were asked for, monotonic seconds: what was made after that may be missing. Of two, the later one
    holds.
    """


class Relisted(NamedTuple):
    """One relist: the pods that changed, and all pods that the runtime has."""

    changed: tuple[Seen, ...]
    glances: dict[PodUid, Glance]
    at: float


class RelistFailed(NamedTuple):
    """The runtime did not answer, or not for one pod; that one counts as changed until it does."""

    error: CriError


Event = Relisted | RelistFailed


class Observed(NamedTuple):
    """A worker has read the facts of a pod itself."""

    facts: PodFacts
    owner: str


class Look(NamedTuple):
    """Relist now."""


class Pleg(Actor):
    """Pod life-cycle event generator.

    Args:
        reader: of the runtime.
        tell: takes each event; must not block.
        period: seconds between the end of a relist and the next one.
    """

    def __init__(self, reader: RuntimeReader, tell: Callable[[Event], None], period: float) -> None:
        super().__init__()
        self._reader = reader
        self._tell = tell
        self._period = period
        self._known: dict[PodUid, Glance] = {}

    def on_start(self) -> None:
        """Look at once."""
        self.actor_ref.tell(Look())

    def on_receive(self, message: object) -> None:
        """Relist, or take notice of what a worker saw."""
        if isinstance(message, Observed):
            self._remember(message)
        elif isinstance(message, Look):
            self._relist()
            if not self.actor_stopped.is_set():
                self.clock.after(self._period, self._look_again)

    def _look_again(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(Look())

    def _remember(self, observed: Observed) -> None:
        facts = observed.facts
        self._note(facts.ref.uid, glance_of(facts, observed.owner) if facts.sandboxes or facts.containers else None)

    def _relist(self) -> None:
        begin = self.clock.monotonic()
        try:
            now = self._reader.glances()
        except CriError as error:
            self._tell(RelistFailed(error))
            return
        changed: list[Seen] = []
        for ref in changed_pods(self._known, now):
            glance = now.get(ref.uid)
            try:
                facts = self._reader.facts(glance) if glance else PodFacts(ref)
            except CriError as error:
                self._tell(RelistFailed(error))
                if isinstance(error, _RUNTIME_AWAY):
                    break
                continue
            if glance is not None and not _is_whole(facts, glance):
                continue
            self._note(ref.uid, glance)
            changed.append(Seen(facts, begin))
        self._tell(Relisted(tuple(changed), now, begin))

    def _note(self, uid: PodUid, glance: Glance | None) -> None:
        if glance is not None:
            self._known[uid] = glance
        else:
            self._known.pop(uid, None)


def _is_whole(facts: PodFacts, glance: Glance) -> bool:
    """Whether all was still there that the lists had named. Otherwise something was removed meanwhile, and what came in
    its place is not among these facts: the pod counts as changed until the next relist, which sees both.
    """
    return len(facts.sandboxes) == len(glance.sandboxes) and len(facts.containers) == len(glance.containers)
