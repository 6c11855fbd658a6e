"""Makes the directory of a version from its wheels: an environment of Python that needs no other one.

A wheel is a zip whose files belong below `site-packages` (PEP 427). The files are written beside the place of the
version, put on the disk, and only then get its name.
"""

import configparser
import os
import re
import shutil
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from beehive.files.advice import advice
from beehive.files.durable import make_directories, put_in_place
from beehive.files.opening import opener_with
from modules.processes.edgecore.upgrade.bundle import MANIFEST, SBOM
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.updater.files import sync_directory, sync_file
from modules.processes.edgecore.upgrade.updater.installation import Installation

MOST_FILES: Final = 50_000
_PIECE: Final = 256 * 1024
_LONGEST_NAME: Final = 400
_LIBRARIES: Final = ("purelib", "platlib")
_DATA: Final = re.compile(r"[^/]+\.data")
_SCRIPT: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]{0,200}):([A-Za-z_]\w{0,100})", re.ASCII)
_ENTRY_POINTS: Final = "edgecore-*.dist-info/entry_points.txt"
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, configparser.Error)


def stage(parts: Iterable[Path], manifest: bytes, version: str, installation: Installation, unpacked: int) -> Path:
    """Make the directory of a version, in the place of one that is there; return it.

    Args:
        parts: the wheels, and the list of them.
        manifest: of the bundle.
        version: its version, which must not be the current one.
        installation: where it belongs.
        unpacked: the most bytes that the wheels may have unpacked.

    Raises:
        UpgradeError: a wheel is damaged, too large, or has a file that belongs elsewhere.
        OSError: a file cannot be written.
    """
    place = installation.versions / version
    making = installation.versions / f".{version}.new"
    for earlier in (making, place):
        shutil.rmtree(earlier, ignore_errors=True)
    try:
        make_environment(making, place, parts, manifest, unpacked)
        put_in_place(making, place)
    except _DAMAGED as error:
        raise UpgradeError("cannot unpack the bundle", version, str(error)) from error
    except OSError as error:
        raise UpgradeError("cannot unpack the bundle", str(error.filename or place), advice(error)) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return place


def base_interpreter() -> Path:
    """Return the Python that this environment was made of."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def make_environment(
    making: Path, place: Path, parts: Iterable[Path], manifest: bytes, unpacked: int, python: Path | None = None
) -> None:
    """Make a durable environment of wheels.

    Args:
        making: the directory, which does not exist.
        place: where it will be.
        parts: the wheels, and the list of them.
        manifest: of the bundle.
        unpacked: the most bytes that the wheels may have unpacked.
        python: the interpreter, of this one's version; None for this one.

    Raises:
        ValueError: a wheel is damaged, too large, or has a file that belongs elsewhere.
        OSError: a file cannot be written.
    """
    library = making / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    programs = making / "bin"
    for directory in (library, programs):
        make_directories(directory, 0o755)
    files = sorted(parts)
    room, found = unpacked, 0
    for wheel in (file for file in files if file.name != SBOM):
        size, number = _unpack(wheel, library, room)
        room, found = room - size, found + number
        if found > MOST_FILES:
            raise ValueError(f"more than {MOST_FILES} files")
    for listed in (file for file in files if file.name == SBOM):
        shutil.copyfile(listed, making / SBOM)
    python = python or base_interpreter()
    (programs / "python").symlink_to(python)
    (making / "pyvenv.cfg").write_text(f"home = {python.parent}\ninclude-system-site-packages = false\n")
    for name, module, function in _scripts(library):
        script = programs / name
        script.write_text(
            f"#!{place / 'bin' / 'python'}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        script.chmod(0o755)
    (making / MANIFEST).write_bytes(manifest)
    for parent, _, names in os.walk(making):
        for written in names:
            if not (file := Path(parent, written)).is_symlink():
                sync_file(file)
        sync_directory(Path(parent))


def _unpack(wheel: Path, library: Path, room: int) -> tuple[int, int]:
    """Unpack a wheel; return its bytes and files."""
    size = 0
    with zipfile.ZipFile(wheel) as packed:
        members = packed.infolist()
        if len(members) > MOST_FILES:
            raise ValueError(f"{wheel.name} has more than {MOST_FILES} files")
        for member in members:
            target = _target(member, library, wheel.name)
            if target is None:
                continue
            make_directories(target.parent, 0o755)
            with open(target, "xb", opener=opener_with(0o644)) as file, packed.open(member) as content:
                while piece := content.read(_PIECE):
                    size += len(piece)
                    if size > room:
                        raise ValueError(f"{wheel.name} is larger than the bundle says")
                    file.write(piece)
    return size, len(members)


def _target(member: zipfile.ZipInfo, library: Path, wheel: str) -> Path | None:
    """Return the place of a member; None if it is not needed here, as scripts and headers are not."""
    name, mode = member.filename, member.external_attr >> 16
    parts = name.split("/")
    if name.endswith("/"):
        parts.pop()
    is_other = stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR)
    if is_other or len(name) > _LONGEST_NAME or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{wheel} has a file that belongs elsewhere: {name[:100]!r}")
    if name.endswith("/"):
        return None
    if _DATA.fullmatch(parts[0]):
        return library.joinpath(*parts[2:]) if len(parts) > 2 and parts[1] in _LIBRARIES else None
    return library.joinpath(*parts)


def _scripts(library: Path) -> list[tuple[str, str, str]]:
    """Return the programs of edgecore: name, module, function."""
    found = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    for file in library.glob(_ENTRY_POINTS):
        found.read_string(file.read_text())
    if not found.has_section("console_scripts") or "edgecore" not in found["console_scripts"]:
        raise ValueError("it has no program edgecore")
    scripts = []
    for name, text in found["console_scripts"].items():
        function = _FUNCTION.fullmatch(text)
        if _SCRIPT.fullmatch(name) is None or function is None:
            raise ValueError(f"a program cannot be called {name[:60]!r}")
        scripts.append((name, function[1], function[2]))
    return scripts
