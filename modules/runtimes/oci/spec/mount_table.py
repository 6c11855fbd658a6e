"""How mounts of this machine pass on new mounts: a volume can be shared only if its own mount is."""

import os
import re
from enum import Flag, auto
from pathlib import Path
from typing import Final

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Propagation(Flag):
    """The optional fields of a mount (proc(5), mountinfo): neither is private."""

    PRIVATE = 0
    SHARED = auto()
    SLAVE = auto()


class MountTable:
    """The mounts of the machine, from a text like /proc/self/mountinfo."""

    def __init__(self, mountinfo: str) -> None:
        self._mounts: dict[str, Propagation] = {}
        for line in mountinfo.splitlines():
            before, _, _ = line.partition(" - ")
            fields = before.split(" ")
            if len(fields) >= 6:
                self._mounts[_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4])] = _propagation(fields[6:])

    @classmethod
    def read(cls, path: Path) -> "MountTable":
        """Read the table now. Raises OSError."""
        return cls(path.read_bytes().decode(errors="surrogateescape"))

    def mount_of(self, path: str) -> tuple[str, Propagation]:
        """Return the mount point on which an absolute path without links is, and how it propagates."""
        while path not in self._mounts and path != "/":
            path = os.path.dirname(path)  # noqa: PTH120 - thousands of components, and no object for each
        return path, self._mounts.get(path, Propagation.PRIVATE)


def _propagation(optional_fields: list[str]) -> Propagation:
    kinds = Propagation.PRIVATE
    for field in optional_fields:
        if field.startswith("shared:"):
            kinds |= Propagation.SHARED
        if field.startswith("master:"):
            kinds |= Propagation.SLAVE
    return kinds
