"""Decides how volumes appear at their paths in a container, without making a single name on the host.

Pure: `HostView` answers all questions about the host's file system, and the result is a list of steps for
`modules.runtimes.shim.roots`. The rules:

- the container's root is all of the host's, bound recursively, on a directory of the runtime's;
- a mount point that exists is bound over; a missing one gets its nearest existing directory *scaffolded* (see
  `roots`), so that the missing names are made in memory;
- inside another volume of the container, a missing mount point is made in that volume, as runc does;
- symbolic links of the host are followed (/var/run); those inside volumes are not, as their content is not trusted.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

from modules.runtimes.engine.errors import MountPlanError
from modules.runtimes.shim.protocol import Step

_LINK_LIMIT = 40
"""Symbolic links followed for one path, as in Linux."""

_DEEPEST = 64
"""Components of a container path: the plan of one path grows with their number squared."""

_ROOT = PurePosixPath("/")


class PathKind(StrEnum):
    """The kind of file at a path, links not followed. FILE is everything but a directory or a link."""

    DIRECTORY = "directory"
    FILE = "file"
    LINK = "link"
    MISSING = "missing"


class HostView(Protocol):
    """The host's file system, as far as a plan depends on it."""

    def kind(self, path: PurePosixPath) -> PathKind:
        """Return the kind of file at `path`."""

    def read_link(self, path: PurePosixPath) -> str:
        """Return the target of the symbolic link at `path`."""


class BindMount(NamedTuple):
    """A host path that appears at a container path."""

    container_path: PurePosixPath
    host_path: PurePosixPath
    readonly: bool


def plan_mounts(
    volumes: Sequence[BindMount], directories: Sequence[PurePosixPath], host: HostView, root: PurePosixPath
) -> list[Step]:
    """Return the steps that build a container's root at `root` and enter it.

    Args:
        volumes: in any order; paths may be nested but not equal.
        directories: paths that must be directories (a working directory); missing ones are made, empty.
        host: the host's file system.
        root: an empty directory on the host, the place to build at.

    Raises:
        MountPlanError: names the volume and the obstacle.
    """
    plan = _Plan(host)
    for volume in sorted(volumes, key=lambda volume: volume.container_path.parts):
        plan.place_volume(volume)
    for directory in directories:
        plan.place_directory(directory)
    return plan.steps(root)


class _Plan:
    def __init__(self, host: HostView) -> None:
        self._host = host
        self._volumes: dict[PurePosixPath, BindMount] = {}
        self._made: dict[PurePosixPath, PathKind] = {}
        self._scaffolds: set[PurePosixPath] = set()

    def place_volume(self, volume: BindMount) -> None:
        kind = self._host_kind(volume)
        path = self._resolve(volume.container_path, kind)
        if path == _ROOT or path in self._volumes:
            taken = "the root directory" if path == _ROOT else "another volume"
            raise _refusal(volume.container_path, f"{taken} is at that path")
        self._volumes[path] = volume

    def place_directory(self, path: PurePosixPath) -> None:
        self._resolve(path, PathKind.DIRECTORY)

    def steps(self, root: PurePosixPath) -> list[Step]:
        def inside(path: PurePosixPath) -> str:
            return str(root / path.relative_to(_ROOT))

        base = [["scaffold" if _ROOT in self._scaffolds else "bind", "/", str(root)]]
        made = [((path.parts, 0), [str(kind), inside(path)]) for path, kind in self._made.items()]
        scaffolds = [
            ((path.parts, 1), ["scaffold", str(path), inside(path)]) for path in self._scaffolds if path != _ROOT
        ]
        binds = [
            ((path.parts, 1), ["bind", str(volume.host_path), inside(path)]) for path, volume in self._volumes.items()
        ]
        in_order = [step for _, step in sorted(made + scaffolds + binds)]
        readonly = [["readonly", inside(path)] for path, volume in self._volumes.items() if volume.readonly]
        return base + in_order + readonly + [["enter", str(root)]]

    def _host_kind(self, volume: BindMount) -> PathKind:
        path = volume.host_path
        for _ in range(_LINK_LIMIT):
            kind = self._host.kind(path)
            if kind is not PathKind.LINK:
                break
            path = path.parent / self._host.read_link(path)
        if kind is PathKind.MISSING:
            raise _refusal(volume.container_path, f'the host path "{volume.host_path}" does not exist')
        return kind

    def _resolve(self, path: PurePosixPath, kind: PathKind) -> PurePosixPath:
        """Follow the links in `path` to its real place, and plan to make all missing names on the way."""
        if len(path.parts) > _DEEPEST:
            raise _refusal(PurePosixPath(*path.parts[:4], "…"), f"it is deeper than {_DEEPEST} directories")
        at, pending, links = _ROOT, list(reversed(path.parts[1:])), 0
        while pending:
            name = pending.pop()
            here = at.parent if name == ".." else at / name
            found = self._kind_at(here)
            if found is PathKind.LINK:
                links += 1
                at, names = self._follow(here, path, links)
                pending.extend(reversed(names))
                continue
            wanted = PathKind.DIRECTORY if pending else kind
            if found is PathKind.MISSING:
                self._make(here, wanted)
            elif found is not wanted:
                raise _refusal(path, f'"{here}" is a {found} on this machine where a {wanted} is needed')
            at = here
        return at

    def _follow(self, link: PurePosixPath, path: PurePosixPath, links: int) -> tuple[PurePosixPath, list[str]]:
        if self._volume_around(link) is not None:
            raise _refusal(path, f'"{link}" is a symbolic link inside a volume')
        if links > _LINK_LIMIT:
            raise _refusal(path, "too many symbolic links")
        target = PurePosixPath(self._host.read_link(link))
        if target.is_absolute():
            return _ROOT, list(target.parts[1:])
        return link.parent, list(target.parts)

    def _kind_at(self, path: PurePosixPath) -> PathKind:
        if path in self._made:
            return self._made[path]
        if path in self._volumes:
            return self._host_kind(self._volumes[path])
        around = self._volume_around(path)
        shown = path if around is None else self._volumes[around].host_path / path.relative_to(around)
        return self._host.kind(shown)

    def _make(self, path: PurePosixPath, kind: PathKind) -> None:
        in_memory = path.parent in self._made or path.parent in self._scaffolds
        if not in_memory and self._volume_around(path) is None:
            self._scaffolds.add(path.parent)
        self._made[path] = kind

    def _volume_around(self, path: PurePosixPath) -> PurePosixPath | None:
        return next((parent for parent in path.parents if parent in self._volumes), None)


def _refusal(container_path: PurePosixPath, reason: str) -> MountPlanError:
    return MountPlanError(f'mount at "{container_path}"', reason)
