"""Init containers that keep running. A module apart from `restart`, because cloudcore uses it, which has no container
runtime.
"""

from typing import Final

from modules.apimachinery.types import Container

_ALWAYS: Final = "Always"


def is_sidecar(container: Container) -> bool:
    """Return whether an init container keeps running beside the others (restartPolicy Always)."""
    return container.restart_policy == _ALWAYS
