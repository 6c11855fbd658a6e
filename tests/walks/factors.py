"""What installations differ in, and which combinations there are."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.walks.walks import WALKS

FACTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "walk": tuple(WALKS),
    "runtime": ("processes", "oci", "containerd", "docker"),
    "user": ("root", "ordinary"),
    "link": ("good", "cut"),
    "certificates": ("tls", "plain"),
    "version": ("release", "development"),
    "restart": ("no-restart", "node-restart", "cloud-restart"),
    "objects": ("embedded", "cluster"),
    "mesh": ("mesh", "no-mesh"),
    "files": ("debian", "ubuntu"),
    "nodes": ("one-node", "two-nodes"),
}
"""Levels by factor. No two factors have a level in common, so that a row is named by its levels."""

_PLUGINS: Final = "/usr/lib/cni/bridge"
_NEEDED: Final = {
    "oci": ("crun", "conmon", _PLUGINS),
    "containerd": ("containerd", "ctr", "runc", _PLUGINS),
    "docker": ("dockerd", "containerd", "runc", _PLUGINS),
    "ordinary": ("newuidmap", "setpriv", "slirp4netns"),
    "mesh": ("nft",),
}
_PATH: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class Row(NamedTuple):
    """The installation and the walk of one run: a level of each factor."""

    walk: str
    runtime: str
    user: str
    link: str
    certificates: str
    version: str
    restart: str
    objects: str
    mesh: str
    files: str
    nodes: str

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of levels that it covers."""
        return frozenset((one, other) for at, one in enumerate(self) for other in self[at + 1 :])


@dataclass(frozen=True)
class Here:
    """What the machine of the walks has.

    Args:
        is_root: whether the walks run as root; an ordinary user is another one then.
        programs: which of the needed programs are installed.
        may_open_tun: whether pods of an ordinary user can have a network.
        has_python: whether the machine has the Python of this process in /usr/bin, where others may run it.
    """

    is_root: bool
    programs: frozenset[str]
    may_open_tun: bool = True
    has_python: bool = True


def this_machine() -> Here:
    """Return what is here."""
    needed = {
        program for programs in (*_NEEDED.values(), *(walk.programs for walk in WALKS.values())) for program in programs
    }
    found = {program for program in needed if shutil.which(program, path=_PATH)}
    tun = Path("/dev/net/tun")
    is_root = os.geteuid() == 0
    may_open = tun.exists() and (is_root or os.access(tun, os.R_OK | os.W_OK))
    python = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    return Here(is_root, frozenset(found), may_open, has_python=python.exists())


def reason_not(levels: Iterable[str], here: Here) -> str:
    """Return why a machine cannot have some levels together; empty if it can.

    Args:
        levels: of some factors or of all.
        here: the machine.
    """
    has = {*levels}
    walks = [WALKS[level] for level in has if level in WALKS]
    needed = {each for level in has for each in _NEEDED.get(level, ())} | {
        each for walk in walks for each in walk.programs
    }
    why = next((why for is_so, why in _reasons(has, here) if is_so), "")
    why = why or next((why for walk in walks for level, why in walk.not_with.items() if level in has), "")
    missing = sorted(needed - here.programs)
    return why or (f"not installed: {', '.join(missing)}" if missing else "")


def _reasons(has: AbstractSet[str], here: Here) -> Iterator[tuple[bool, str]]:
    is_shared = bool(has & {"containerd", "docker"})
    yield not here.is_root and "root" in has, "the walks run as an ordinary user"
    yield not here.is_root and "ubuntu" in has, "root alone gives a program other files in /etc"
    yield not here.is_root and "names" in has, "the port of its name server is root's"
    yield here.is_root and "ordinary" in has and not here.has_python, "other users have no such Python"
    yield "ordinary" in has and is_shared, "the runtime's socket is root's"
    yield {"ordinary", "oci"} <= has and not here.may_open_tun, "/dev/net/tun cannot be opened"
    yield "two-nodes" in has and is_shared, "two nodes on one runtime end each other's pods"
    yield {"two-nodes", "mesh", "root"} <= has, "two nodes in one network have one address of the mesh"
