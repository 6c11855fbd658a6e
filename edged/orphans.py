"""What is on the node and belongs to no pod: left by an agent that was killed, or deleted while it was away.

Only what carries this agent's own mark counts, and nothing does before the store has said which pods belong here; with
a store that may not know all of them, nothing that the cloud has not disowned (`edged.inquiry`). What others made is
never an orphan of ours. A data structure of the edged module, without effects.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from edged.pleg.reader import Glance
from edged.pods.model import PodRef, PodUid


class Orphans:
    """See the module's docstring.

    Args:
        owner: the mark of what this agent made in the runtime.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._removing: dict[PodUid, PodRef] = {}
        self._directories: set[PodUid] = set()
        self._may_look = False
        self._is_disowned: Callable[[PodRef], bool] | None = None

    def look_for(self, directories: Iterable[PodUid], *, is_disowned: Callable[[PodRef], bool] | None = None) -> None:
        """The pods are known from now on.

        Args:
            directories: the pods that have files on the node: of an agent that was killed in the middle of a removal
                nothing else may be left.
            is_disowned: when the pods may not be all: whether one that is not among them is an orphan indeed.
        """
        self._may_look = True
        self._is_disowned = is_disowned
        self._directories = set(directories)

    def found(self, glances: Mapping[PodUid, Glance], known: Container[PodUid]) -> list[PodRef]:
        """Orphans that were not there at the last look. Of one that has only files no more than the uid is known."""
        if not self._may_look:
            return []
        made = [glance.ref for glance in glances.values() if glance.owner == self._owner]
        files = [PodRef(uid, "", "") for uid in sorted(self._directories - glances.keys())]
        self._directories = set()
        new = [ref for ref in made + files if ref.uid not in known and ref.uid not in self._removing]
        if self._is_disowned is not None:
            new = [ref for ref in new if self._is_disowned(ref)]
        self._removing |= {ref.uid: ref for ref in new}
        return new

    def get(self, uid: PodUid) -> PodRef | None:
        """The orphan of that uid that is still to be removed."""
        return self._removing.get(uid)

    def removed(self, uid: PodUid) -> None:
        """It is gone; should it be seen again, it is found again."""
        self._removing.pop(uid, None)
