"""What the collectors of containers and of images share: the pods that they ask for, and removals."""

import logging
from collections.abc import Callable, Iterable, Set
from typing import Protocol, TypeVar

from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

ListPods = Callable[[], tuple[Pod, ...]]
"""Returns this node's pods, with the statuses that edged computed last; called on any thread."""


class Removable(Protocol):
    """A container, sandbox or image."""

    @property
    def id(self) -> str:
        """Its id."""


R = TypeVar("R", bound=Removable)


class Removals:
    """The removals of a collector. A pass ends at the first one that is not answered in time, as each further call may
    wait as long; in the next passes its object is the last, so that it keeps no other on the disk.
    """

    def __init__(self) -> None:
        self._late: frozenset[str] = frozenset()

    def ordered(self, objects: Iterable[R]) -> list[R]:
        """Return the objects in the order of their removal."""
        return sorted(objects, key=lambda each: each.id in self._late)

    def keep(self, present: Set[str]) -> None:
        """Forget the objects that are no longer there."""
        self._late &= present

    def is_removed(self, name: str, remove: Callable[[], None]) -> bool:
        """Remove an object. Return False, and log why, when the runtime refuses.

        Raises:
            DeadlineExceededError, UnavailableError: the runtime does not answer.
        """
        try:
            remove()
        except UnavailableError:
            raise
        except DeadlineExceededError:
            self._late |= {name}
            raise
        except CriError as error:
            _log.warning("%s is kept: %s", name, error)
            return False
        return True
