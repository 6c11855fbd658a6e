"""The mounts of the kernel's control groups, and the controllers of each.

Machines differ: cgroup v2 alone; v1 with a mount for each controller or for several; or v1 with v2 beside it for the
controllers that v1 lacks (hybrid). A pod's cgroup has the same path in all of them.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Hierarchy(msgspec.Struct, frozen=True):
    """One mount. `unified` is cgroup v2, whose controllers are listed in one of its files."""

    mount: Path
    controllers: tuple[str, ...] = ()
    unified: bool = False


def read_hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies in a text like /proc/self/mountinfo. If a hierarchy is mounted twice, the first mount
    counts.
    """
    found: dict[object, Hierarchy] = {}
    for line in mountinfo.split("\n"):
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        fields = before.split(" ")
        if kind not in ("cgroup", "cgroup2") or len(fields) < 5 or len(rest) < 2:
            continue
        mount = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        if kind == "cgroup2":
            found.setdefault("unified", Hierarchy(mount, unified=True))
        else:
            controllers = tuple(word for word in rest[1].split(",") if word not in ("rw", "ro") and "xattr" not in word)
            found.setdefault(controllers, Hierarchy(mount, controllers))
    return list(found.values())


def with_unified_controllers(hierarchies: Iterable[Hierarchy]) -> list[Hierarchy]:
    """Return the hierarchies with the controllers of the unified one; none when they cannot be read."""
    return [msgspec.structs.replace(h, controllers=_controllers(h.mount)) if h.unified else h for h in hierarchies]


def _controllers(mount: Path) -> tuple[str, ...]:
    try:
        return tuple((mount / "cgroup.controllers").read_text().split())
    except OSError:
        return ()
