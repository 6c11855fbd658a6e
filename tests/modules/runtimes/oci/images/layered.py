"""Layers of random entries that every runtime can unpack, one above the other."""

import tarfile
from typing import Any, Final

from hypothesis import strategies as st

from tests.modules.runtimes.oci.images.tars import Made, device, directory, fifo, file, hardlink, symlink, tar, xattrs

_PATHS: Final = ("a", "a/b", "a/b/c", "a/d", "a/d/e", "f", "f/g", "f/g/h", "i", "j/k/l", "ü")
_KINDS: Final = ("file", "file", "directory", "directory", "symlink", "hardlink", "fifo", "device", "sparse")
_FORMS: Final = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
_OPAQUE: Final = ".wh..wh..opq"


class Layers:
    """Layers, the lowest first."""

    def __init__(self) -> None:
        self.tars: list[bytes] = []
        self.untimed: set[str] = set()
        """Directories that a layer leaves out above its entries: their times come from unpacking."""
        self._described: list[str] = []
        self._merged: dict[str, str] = {}
        """The kinds of what is there so far, by path."""

    def __repr__(self) -> str:
        return "\n".join(self._described)

    def add(self, draw: st.DrawFn) -> None:
        """Add a layer: whiteouts of what it does not have, then entries, which are below directories only."""
        names = sorted(draw(st.lists(st.sampled_from(_PATHS), min_size=1, max_size=8, unique=True)))
        drawn = {name: draw(st.sampled_from(_KINDS)) for name in names}
        kinds: dict[str, str] = {}
        for name, kind in drawn.items():
            if self._is_below_directories(name, kinds):
                kinds[name] = kind
        there = sorted(self._merged.keys() - kinds.keys())
        gone = draw(st.lists(st.sampled_from(there), max_size=2, unique=True)) if there else []
        hidden = [name for name in gone if not _below(name, kinds) and self._is_below_directories(name, kinds)]
        hidden = [name for name in hidden if not any(other in _above(name) for other in hidden)]
        made = [_whiteout(name) for name in hidden]
        opaque = []
        for name, kind in kinds.items():
            files = [each for each, other in kinds.items() if other == "file" and each < name]
            made.append(_entry(draw, name, kind, files))
            may_be_opaque = kind == "directory" and self.tars and not any(name in _above(each) for each in hidden)
            if may_be_opaque and draw(st.integers(0, 4)) == 0:
                made.append(file(f"{name}/{_OPAQUE}"))
                opaque.append(name)
        above = {each for name in (*kinds, *hidden) for each in _above(name)}
        self.untimed |= above - {name for name, kind in kinds.items() if kind == "directory"}
        self._merge(kinds, hidden, opaque)
        has_headers = any(member.pax_headers for member, _ in made)
        self.tars.append(tar(*made, form=tarfile.PAX_FORMAT if has_headers else draw(st.sampled_from(_FORMS))))
        self._described += [f"layer {len(self.tars)}", *(f"  {_shown(member)}" for member, _ in made)]

    def _is_below_directories(self, name: str, kinds: dict[str, str]) -> bool:
        """Whether all above a name is a directory of this layer, or one of those below that it leaves out."""
        return all(kinds.get(each, self._merged.get(each, "directory")) == "directory" for each in _above(name))

    def _merge(self, kinds: dict[str, str], hidden: list[str], opaque: list[str]) -> None:
        """Add a layer to what is there."""
        for name in (*hidden, *opaque, *(name for name, kind in kinds.items() if kind != "directory")):
            for each in _below(name, self._merged):
                del self._merged[each]
        for name in hidden:
            self._merged.pop(name, None)
        for name in (*kinds, *hidden):
            self._merged |= dict.fromkeys(_above(name), "directory")
        self._merged |= kinds


@st.composite
def layers(draw: st.DrawFn) -> Layers:
    """Two or three layers."""
    made = Layers()
    for _ in range(draw(st.integers(2, 3))):
        made.add(draw)
    return made


def _entry(draw: st.DrawFn, name: str, kind: str, files: list[str]) -> Made:
    """An entry; a hard link leads to one of `files`, or is a file."""
    attributes: dict[str, Any] = {
        "mode": draw(st.sampled_from((0o644, 0o600, 0o755, 0o4755, 0o2755, 0o1777, 0o000))),
        "uid": draw(st.sampled_from((0, 1, 1000, 100_000))),
        "gid": draw(st.sampled_from((0, 5, 100_000))),
        "mtime": draw(st.sampled_from((0, 1, 1_600_000_000, 4_000_000_000))),
    }
    headers: dict[str, str] = {}
    if draw(st.integers(0, 3)) == 0:
        headers["mtime"] = draw(st.sampled_from(("1600000000.123456789", "5.5", "1.000000001")))
    if kind in ("file", "directory") and draw(st.integers(0, 3)) == 0:
        headers |= xattrs(user__note=draw(st.sampled_from((b"x", b"two words", b"\1\2"))))
    attributes["pax_headers"] = headers
    match kind:
        case "directory":
            return directory(name, **attributes)
        case "symlink":
            return symlink(name, draw(st.sampled_from(("f", "/a", "../i", "nowhere"))), **attributes)
        case "hardlink" if files:
            return hardlink(name, draw(st.sampled_from(files)), **attributes)
        case "fifo":
            return fifo(name, **attributes)
        case "device":
            return device(name, 1, draw(st.sampled_from((3, 5))), **attributes)
        case "sparse":
            headers |= {"GNU.sparse.map": "4096,2,10000,1", "GNU.sparse.numblocks": "2", "GNU.sparse.size": "20000"}
            return file(name, b"xyz", **attributes)
    return file(name, draw(st.binary(max_size=600)), **attributes)


def _whiteout(name: str) -> Made:
    above, _, last = name.rpartition("/")
    return file(f"{above}/.wh.{last}" if above else f".wh.{last}")


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _below(name: str, others: dict[str, str]) -> list[str]:
    """Which of the others are below a name."""
    return [each for each in others if each.startswith(f"{name}/")]


def _shown(member: tarfile.TarInfo) -> str:
    kind = member.type.decode()
    link = f" -> {member.linkname}" if member.linkname else ""
    return f"{kind} {member.name}{link} {member.mode:o} {member.uid}:{member.gid} {member.mtime} {member.pax_headers}"
