"""The kinds of container runtimes inside edgecore, and the remains of each in the root directory.

Each kind keeps its records in a directory of its own. Containers outlive edgecore, so containers of a kind that is no
longer configured run on, and the configured kind starts their pods a second time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from edged.errors import EdgedError
from modules.processes.edgecore.config.names import DOCKER_ENDPOINT, OCI_ENDPOINT, PROCESS_ENDPOINT

if TYPE_CHECKING:
    from pathlib import Path

    from modules.processes.edgecore.config import EdgeCoreConfig


class RuntimeKind(StrEnum):
    """A container runtime inside edgecore, by its name in commands."""

    PROCESSES = "processes"
    OCI = "oci"
    DOCKER = "docker"


_ENDPOINTS: Final = {
    RuntimeKind.PROCESSES: PROCESS_ENDPOINT,
    RuntimeKind.OCI: OCI_ENDPOINT,
    RuntimeKind.DOCKER: DOCKER_ENDPOINT,
}
_SANDBOXES, _CONTAINERS, _LOCK = "sandboxes", "containers", "lock"
"""Names in the directory of every kind (`modules.runtimes.engine.state`)."""
_HIDDEN: Final = "."


class LeftKind(msgspec.Struct, frozen=True):
    """A kind that is not configured and has records of pods."""

    kind: RuntimeKind
    directory: str
    sandboxes: int

    def __str__(self) -> str:
        """Name the kind, the directory and the number of pods."""
        pods = "1 pod" if self.sandboxes == 1 else f"{self.sandboxes} pods"
        return f"{_ENDPOINTS[self.kind]} is not configured and has {pods} in {self.directory}"

    def remedy(self, options: str = "") -> str:
        """Return their state and the command that ends them; `options` lead it to the node."""
        command = f"edgecore reset --runtime --kind {self.kind} {options}".rstrip()
        return f"they run on beside the pods of the configured runtime; stop edgecore, then `{command}` ends them"


def configured_kind(config: EdgeCoreConfig) -> RuntimeKind | None:
    """Return the configured kind; None if the container runtime is not inside edgecore."""
    endpoint = config.modules.edged.tailored_kubelet_config.container_runtime_endpoint
    return next((kind for kind, each in _ENDPOINTS.items() if each == endpoint), None)


def of_kind(config: EdgeCoreConfig, kind: RuntimeKind) -> EdgeCoreConfig:
    """Return the configuration of the same node with this kind of container runtime."""
    if configured_kind(config) is kind:
        return config
    edged = config.modules.edged
    kubelet = replace(
        edged.tailored_kubelet_config, container_runtime_endpoint=_ENDPOINTS[kind], image_service_endpoint=""
    )
    return replace(config, modules=replace(config.modules, edged=replace(edged, tailored_kubelet_config=kubelet)))


def kinds_with_records(config: EdgeCoreConfig) -> list[RuntimeKind]:
    """Return the kinds whose directories have the form of a runtime's; others are not edgecore's. Raises EdgedError."""
    return [kind for kind in RuntimeKind if has_records(of_kind(config, kind).container_runtime_root)]


def has_records(directory: Path) -> bool:
    """Return whether a directory belongs to a runtime inside edgecore; no link is followed to it or in it.

    Raises:
        EdgedError: there is a link, which nothing may be removed through.
    """
    links = [each for each in (directory, directory / _SANDBOXES, directory / _CONTAINERS) if each.is_symlink()]
    there = _has_form(directory)
    if there and links:
        raise EdgedError("use the directory of a container runtime", str(links[0]), "it is a link; none is followed")
    return there


def other_kinds(config: EdgeCoreConfig) -> tuple[LeftKind, ...]:
    """Return the kinds that are not configured and have records of pods, as far as this user may look."""
    others = [kind for kind in RuntimeKind if kind is not configured_kind(config)]
    found = [_left(kind, of_kind(config, kind).container_runtime_root) for kind in others]
    return tuple(each for each in found if each is not None)


def _left(kind: RuntimeKind, directory: Path) -> LeftKind | None:
    """Return the remains of a kind; None if there are none, or this user may not look."""
    with suppress(OSError):
        if not directory.is_symlink() and _has_form(directory):
            sandboxes = _entries(directory / _SANDBOXES)
            if sandboxes or _entries(directory / _CONTAINERS):
                return LeftKind(kind, str(directory), sandboxes)
    return None


def _has_form(directory: Path) -> bool:
    """Return whether two of the three names are there: one may be damaged, and Docker's own directory has one."""
    parts = [(directory / name).is_dir() for name in (_SANDBOXES, _CONTAINERS)]
    return sum([*parts, (directory / _LOCK).is_file()]) > 1


def _entries(directory: Path) -> int:
    """Return the number of published entries of a directory; 0 if it is missing or a link. Raises OSError."""
    if directory.is_symlink() or not directory.is_dir():
        return 0
    return sum(not name.startswith(_HIDDEN) for name in os.listdir(directory))  # noqa: PTH208 - names alone
