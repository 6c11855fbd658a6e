"""Init containers that keep running. Apart from `restart`, because cloudcore asks, which knows no runtime."""

from typing import Final

from edged.api import Container

_ALWAYS: Final = "Always"


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others (restartPolicy Always)."""
    return container.restart_policy == _ALWAYS
