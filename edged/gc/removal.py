"""What the collectors of containers and of images share: the pods that they ask for, and a removal."""

import logging
from collections.abc import Callable

from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

ListPods = Callable[[], tuple[Pod, ...]]
"""Returns this node's pods, with the statuses that edged computed last; called on any thread."""


def is_removed(name: str, remove: Callable[[], None]) -> bool:
    """Remove a container, sandbox or image. Return False, and log why, when the runtime refuses."""
    try:
        remove()
    except (UnavailableError, DeadlineExceededError):
        raise
    except CriError as error:
        _log.warning("%s is kept: %s", name, error)
        return False
    return True
