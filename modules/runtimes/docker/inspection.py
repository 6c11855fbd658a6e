"""Docker's description of its objects, for verbose status calls."""

from collections.abc import Mapping
from typing import Any


def specification_of(image: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image's configuration by the image specification, from Docker's `GET /images/NAME/json`."""
    layers = image.get("RootFS")
    return {
        "created": image.get("Created"),
        "architecture": image.get("Architecture"),
        "os": image.get("Os"),
        "config": image.get("Config"),
        "rootfs": {"type": "layers", "diff_ids": layers.get("Layers") if isinstance(layers, dict) else None},
    }


def pid_of(container: Mapping[str, Any]) -> int:
    """Return the process of a container, from Docker's `GET /containers/ID/json`; 0 if it does not run."""
    state = container.get("State")
    pid = state.get("Pid") if isinstance(state, dict) else None
    return pid if isinstance(pid, int) else 0
