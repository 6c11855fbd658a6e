"""Control groups in the kernel's file systems: effects without decisions."""

import errno
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from beehive.files.descriptors import OwnedFd
from edged.cgroups.errors import CgroupBusyError, CgroupError
from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.knobs import CONTROLLERS, Knob, knobs
from edged.cgroups.names import CgroupPath
from edged.cgroups.resource_config import ResourceConfig

_log = logging.getLogger(__name__)

_HUGE_PAGES = "hugetlb"
_PAGE_FILES = (("hugetlb.", ".limit_in_bytes"), ("hugetlb.", ".max"))
_LINKS_OF_LEAF = 2
"""Links of a directory without others below it, where a file system counts those, as that of cgroups does."""


class CgroupTree(Protocol):
    """The control groups of a machine."""

    def make(self, path: CgroupPath) -> None:
        """Make a cgroup and its parents; an existing one is kept. Raises CgroupError."""

    def set(self, path: CgroupPath, limits: ResourceConfig) -> None:
        """Set all fields that are not None, as far as the machine has the controller. All are tried before CgroupError
        is raised.
        """

    def remove(self, path: CgroupPath) -> None:
        """Remove a cgroup and all below it, from every hierarchy; a missing one is a success.

        Processes in it are killed; then CgroupBusyError asks for another attempt.
        """


class SilentTree:
    """A `CgroupTree` without effects, for a replay, which must not touch its machine."""

    def make(self, path: CgroupPath) -> None:
        """See `CgroupTree`."""

    def set(self, path: CgroupPath, limits: ResourceConfig) -> None:
        """See `CgroupTree`."""

    def remove(self, path: CgroupPath) -> None:
        """See `CgroupTree`."""


class CgroupFiles:
    """A `CgroupTree` of directories in the cgroup file systems. Two threads must not use the same cgroup at the same
    time.

    A cgroup is one directory in each hierarchy. They are made here in those with `CONTROLLERS`, which edged itself sets
    or reads; the runtime makes the others for its containers. All of them are removed here, because runtimes remove
    only the cgroup of their container, not the pod's.

    Args:
        hierarchies: of the machine, the unified one with its controllers.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        hierarchies = tuple(hierarchies)
        self._mounts = tuple(str(hierarchy.mount) for hierarchy in hierarchies)
        self._used = tuple((str(h.mount), h) for h in hierarchies if set(h.controllers) & set(CONTROLLERS))
        self._handed_down: set[str] = set()
        """Unified cgroups that have handed down their controllers, up to a failure: others may change them."""
        self._page_sizes: dict[str, tuple[str, ...]] = {}
        """Sizes of huge pages by mount."""

    def make(self, path: CgroupPath) -> None:
        """See `CgroupTree`."""
        for mount, hierarchy in self._used:
            directory = _below(mount, path)
            ready = not hierarchy.unified or os.path.dirname(directory) in self._handed_down  # noqa: PTH120 - strings
            if not (ready and _made(directory)):
                self._make_all(hierarchy, path)

    def set(self, path: CgroupPath, limits: ResourceConfig) -> None:
        """See `CgroupTree`."""
        first: CgroupError | None = None
        for mount, hierarchy in self._used:
            directory = _below(mount, path)
            page_sizes = self._page_sizes_of(mount, hierarchy, directory)
            for knob in knobs(limits, unified=hierarchy.unified, page_sizes=page_sizes):
                if knob.controller in hierarchy.controllers:
                    try:
                        _write_knob(directory, knob)
                    except CgroupError as error:
                        first = first or error
        if first is not None:
            self._handed_down.clear()
            raise first

    def remove(self, path: CgroupPath) -> None:
        """See `CgroupTree`."""
        places, inner = [_below(mount, path) for mount in self._mounts], list[str]()
        busy = [place for place in places if not _removed(place, inner)]
        if busy:
            for process in sorted(set(_processes(busy))):
                _log.warning("killing process %d, which is left in %s", process, path)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            raise CgroupBusyError("cannot remove the cgroup", busy[0], "it is in use", retryable=True)

    def _make_all(self, hierarchy: Hierarchy, path: CgroupPath) -> None:
        """Make a cgroup and its parents in one hierarchy. Raises CgroupError."""
        directory = hierarchy.mount
        for part in path.strip("/").split("/"):
            if hierarchy.unified:
                self._hand_down(directory, hierarchy.controllers)
            directory = directory / part
            with _cgroup_errors("make the cgroup", directory):
                directory.mkdir(mode=0o755, exist_ok=True)
        if hierarchy.unified:
            self._handed_down.add(str(directory.parent))

    def _page_sizes_of(self, mount: str, hierarchy: Hierarchy, directory: str) -> tuple[str, ...]:
        """Return the sizes of the machine's huge pages that a hierarchy limits; looked for until there is a cgroup."""
        if _HUGE_PAGES not in hierarchy.controllers:
            return ()
        if mount not in self._page_sizes and Path(directory).is_dir():
            self._page_sizes[mount] = _page_sizes(Path(directory))
        return self._page_sizes.get(mount, ())

    def _hand_down(self, directory: Path, controllers: tuple[str, ...]) -> None:
        """Enable the controllers for the children of a unified cgroup; each by itself, because one may be refused."""
        file = directory / "cgroup.subtree_control"
        with _cgroup_errors("hand down controllers", file):
            missing = set(controllers) - set(file.read_text().split())
            for controller in sorted(missing & set(CONTROLLERS)):
                _write(file, f"+{controller}")


class _cgroup_errors:  # noqa: N801 - a context manager that is used as a function
    """A context that turns an OSError into a CgroupError with the attempted operation."""

    def __init__(self, attempt: str, on: Path | str, hint: str = "") -> None:
        self._attempt, self._on, self._hint = attempt, on, hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            hint = f"{self._hint}: {error.strerror}".removeprefix(": ")
            raise CgroupError(f"cannot {self._attempt}", str(self._on), hint, retryable=True) from error


def _write_knob(directory: str, knob: Knob) -> None:
    file = f"{directory}/{knob.file}"
    with _cgroup_errors("set the cgroup's limit", file, f"to {knob.value}"):
        _write(file, knob.value)


def _made(directory: str) -> bool:
    """Make a cgroup. Return False when one step is not enough; the caller's further steps then raise the reason."""
    try:
        os.mkdir(directory, 0o755)  # noqa: PTH102 - in five hierarchies
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def _below(mount: str, path: CgroupPath) -> str:
    return f"{mount}/{path.strip('/')}"


def _write(file: Path | str, text: str) -> None:
    """Write in one call, as the kernel requires; a missing file is not made."""
    with OwnedFd(os.open(file, os.O_WRONLY | os.O_CLOEXEC)) as descriptor:
        os.write(descriptor, text.encode())


def _page_sizes(directory: Path) -> tuple[str, ...]:
    """Return the sizes of huge pages that can be limited here, from the names of the interface files."""
    found = [
        name[len(before) : -len(after)]
        for name in (file.name for file in directory.iterdir())
        for before, after in _PAGE_FILES
        if name.startswith(before) and name.endswith(after) and ".rsvd" not in name
    ]
    return tuple(sorted(found))


def _removed(directory: str, known: list[str]) -> bool:
    """Remove a cgroup from the leaves up; return False when one of them has processes.

    Args:
        directory: the cgroup in one hierarchy.
        known: what had to be removed in the hierarchy before, relative to the cgroup: it is mostly the same, and a
            listing is dear. Changed to that of this one.
    """
    for below in known or [""]:
        try:
            os.rmdir(directory + below)  # noqa: PTH106 - mostly missing or empty, in ten hierarchies and three classes
        except FileNotFoundError:
            pass
        except OSError:
            continue
        if not below:
            return True
    known[:] = [each.removeprefix(directory) for each in reversed(_all_below(directory))]
    for below in known:
        try:
            os.rmdir(directory + below)  # noqa: PTH106 - as above
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            raise CgroupError(
                "cannot remove the cgroup", directory + below, error.strerror or "", retryable=True
            ) from error
    return True


def _processes(directories: Iterable[str]) -> Iterator[int]:
    for directory in directories:
        for inner in _all_below(directory):
            with suppress(OSError):
                yield from (int(word) for word in Path(inner, "cgroup.procs").read_text().split() if word != "0")


def _all_below(directory: str) -> list[str]:
    """Return a cgroup and those below it, parents first. Iterative, because a pod that may make cgroups may nest them
    deeper than the recursion limit.
    """
    found = [directory]
    for path in found:
        try:
            if os.stat(path).st_nlink == _LINKS_OF_LEAF:  # noqa: PTH116 - spares a listing of some fifty files
                continue
            with os.scandir(path) as entries:
                found += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return found
