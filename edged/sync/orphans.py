"""Orphans: pods on the node that belong to no known pod."""

from collections.abc import Callable, Container, Iterable, Mapping

from edged.pleg.reader import PodSnapshot
from edged.pods.model import PodRef, PodUid


class Orphans:
    """Sandboxes, containers and files that belong to no pod: a killed agent has left them, or their pod was deleted
    while the agent was not running.

    Only sandboxes with this agent's own mark are orphans, and only after every source has sent its pods; while the
    store may lack pods, only pods that the cloud has disowned (`PodRecovery`). A data structure without effects.

    Args:
        owner: mark of the sandboxes that this agent makes.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._directories: set[PodUid] = set()
        self._may_look = False
        self._is_disowned: Callable[[PodRef], bool] | None = None

    def start(self, directories: Iterable[PodUid], *, is_disowned: Callable[[PodRef], bool] | None = None) -> None:
        """Find orphans from now on: the pods of this node are known.

        Args:
            directories: pods that have files on the node: an agent that was killed during a removal may have left
                nothing else of them.
            is_disowned: returns whether an unknown pod is an orphan, while some pods of the node may still be unknown.
        """
        self._may_look = True
        self._is_disowned = is_disowned
        self._directories = set(directories)

    def find(self, snapshots: Mapping[PodUid, PodSnapshot], known: Container[PodUid]) -> list[PodRef]:
        """Return the orphans that a relist shows. An orphan that has only files is known by its uid alone.

        Args:
            snapshots: of the runtime's pods.
            known: the pods of this node, and the orphans that are being removed.
        """
        if not self._may_look:
            return []
        made = [snapshot.ref for snapshot in snapshots.values() if snapshot.owner == self._owner]
        files = [PodRef(uid, "", "") for uid in sorted(self._directories - snapshots.keys())]
        self._directories = set()
        new = [ref for ref in made + files if ref.uid not in known]
        if self._is_disowned is not None:
            new = [ref for ref in new if self._is_disowned(ref)]
        return new
