"""Brings the store's pods to the keeper when edged starts, and finds out what else runs here when the store is new.

A store that says that it is complete is believed: what it does not know is an orphan. One that does not say so is new:
of a new node, or of one whose database was lost (`edged.inquiry`). Once everything that runs here is accounted for,
a note in the store says so, and the next start believes it.

Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from beehive import ResourceType
from edged.api import Pod
from edged.inquiry import Inquiry
from edged.keeper import PodKeeper
from edged.pods.model import PodUid
from edged.rounds import Turns
from metamanager.client import CallError, MetaTurnClient

_log = logging.getLogger(__name__)

FILES_WAIT: Final = 600.0
"""Seconds for which files stay that nothing runs with, when the store was new: their pod may come from the cloud
still, and nobody can be asked, for a directory tells the uid of its pod and not its name."""
_AGAIN: Final = 1.0


class Node(NamedTuple):
    """What the module knows to do."""

    read: Callable[[bytes, str], Pod | None]
    """Makes a pod of JSON; None, with a line in the log, for what is none. The second says where it is from."""
    is_mine: Callable[[Pod], bool]
    """Whether it is to be run here."""
    directories: Callable[[], Iterable[PodUid]]
    """The pods that have files here."""
    was_listed: Callable[[], None]
    """Called when the store has said which pods it has."""


class StoredPods:
    """See the module's docstring.

    Args:
        turns: the module.
        meta: the store is asked through it.
        keeper: takes the pods.
        node: see there.
    """

    def __init__(self, turns: Turns, meta: MetaTurnClient, keeper: PodKeeper, node: Node) -> None:
        self._turns = turns
        self._meta = meta
        self._keeper = keeper
        self._node = node
        self._inquiry: Inquiry | None = None
        self._all_known = False
        self.listed = False
        """Whether the store has said which pods it has."""

    def ask(self) -> None:
        """Ask the store, until it says which pods it has."""
        self._meta.store_is_complete(then=self._on_completeness)

    @property
    def inquires(self) -> bool:
        """Whether it is to be found out yet what else runs here: each relist brings that further."""
        return self._inquiry is not None

    def connected(self) -> None:
        """The cloud is there."""
        if self._inquiry is not None:
            self._inquiry.connected()

    def all_known(self) -> None:
        """All other sources have said which pods they have, too: from now on there are orphans."""
        self._all_known = True
        if self._inquiry is None:
            self._keeper.all_known(self._node.directories())
        else:
            self._keeper.all_known((), is_disowned=self._inquiry.is_disowned)

    def relisted(self) -> None:
        """The keeper has been told what runs here."""
        if self._all_known and self._inquiry is not None and self._inquiry.settled():
            self._inquiry = None
            self._keeper.all_known(())
            self._turns.after(FILES_WAIT, lambda: self._keeper.all_known(self._node.directories()))
            self._meta.note_complete(then=_noted)

    def _on_completeness(self, answer: bool | CallError) -> None:
        if isinstance(answer, CallError):
            self._ask_again(answer)
            return
        self._inquiry = None if answer else Inquiry(self._meta, self._turns.clock, self._take_over)
        self._meta.list_all(ResourceType.POD, then=self._on_pods)

    def _on_pods(self, answer: list[bytes] | CallError) -> None:
        if isinstance(answer, CallError):
            self._ask_again(answer)
            return
        pods = [pod for raw in answer if (pod := self._node.read(raw, "from the store")) is not None]
        self._keeper.listed(filter(self._node.is_mine, pods))
        self.listed = True
        self._node.was_listed()

    def _ask_again(self, error: CallError) -> None:
        _log.warning("the store does not say which pods belong here: %s", error)
        self._turns.after(_AGAIN, self.ask)

    def _take_over(self, uid: PodUid, raw: bytes) -> bool:
        pod = self._node.read(raw, "from the cloud")
        if pod is None or pod.metadata.uid != uid or not self._node.is_mine(pod):
            return False
        self._keeper.take(pod)
        return True


def _noted(error: CallError | None) -> None:
    if error is not None:
        _log.warning("the store could not note that it is complete; the next start asks the cloud again: %s", error)
