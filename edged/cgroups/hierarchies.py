"""The mounts of the kernel's control groups, and the controllers of each.

Machines differ: cgroup v2 alone; v1 with a mount for each controller or for several; or v1 with v2 beside it for the
controllers that v1 lacks (hybrid). A pod's cgroup has the same path in all of them.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from beehive.patterns import pattern

_ESCAPED = pattern(r"\\([0-7]{3})")


class Hierarchy(msgspec.Struct, frozen=True):
    """One mount. `unified` is cgroup v2, whose controllers are listed in one of its files. `root` is the control group
    that is mounted: not the topmost one in a container, and for a node without root.
    """

    mount: Path
    controllers: tuple[str, ...] = ()
    unified: bool = False
    root: str = "/"

    def shown(self, group: str) -> str:
        """Return the path below the mount of a control group, as /proc/PID/cgroup has it."""
        root = self.root.rstrip("/")
        return group[len(root) :] if group.startswith(f"{root}/") else group


def read_hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies in a text like /proc/self/mountinfo. If a hierarchy is mounted twice, the first mount
    counts, or what is mounted over it.
    """
    found: dict[object, Hierarchy] = {}
    for line in mountinfo.split("\n"):
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        fields = before.split(" ")
        if kind not in ("cgroup", "cgroup2") or len(fields) < 5 or len(rest) < 2:
            continue
        root, mount = (_ESCAPED.sub(lambda code: chr(int(code[1], 8)), each) for each in fields[3:5])
        controllers: tuple[str, ...] = ()
        if kind == "cgroup":
            controllers = tuple(word for word in rest[1].split(",") if word not in ("rw", "ro") and "xattr" not in word)
        each = Hierarchy(Path(mount), controllers, kind == "cgroup2", root)
        if found.setdefault((kind, controllers), each).mount == each.mount:
            found[kind, controllers] = each
    return list(found.values())


def with_unified_controllers(hierarchies: Iterable[Hierarchy]) -> list[Hierarchy]:
    """Return the hierarchies with the controllers of the unified one; none when they cannot be read."""
    return [msgspec.structs.replace(h, controllers=_controllers(h.mount)) if h.unified else h for h in hierarchies]


def _controllers(mount: Path) -> tuple[str, ...]:
    try:
        return tuple((mount / "cgroup.controllers").read_text().split())
    except OSError:
        return ()
