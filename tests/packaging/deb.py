"""`make deb`: edgecore as a Debian package, with an environment of its own below /opt.

`deploy/debian` has its control file, scripts and configuration. The environment is made of the wheels of `make release`
and of all that they need, as for `edgecore upgrade`, with Debian's Python of this one's version. dpkg-deb packs it.
DEBEMAIL is its maintainer, as for Debian's own tools: a name, and an address in angle brackets.
"""

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from metamanager.sqlite_migrations import NEWEST
from modules.processes.common.systemd_unit import Unit, text_of
from modules.processes.edgecore.location import KUBEEDGE_FILE
from modules.processes.edgecore.other_commands import PROTECTED, SERVICE
from modules.processes.edgecore.upgrade.bundle import MANIFEST, SBOM
from modules.processes.edgecore.upgrade.staging import make_environment
from tests.packaging.bundle import parts_of, released, released_at
from tests.packaging.release import ROOT

ENVIRONMENT: Final = Path("/opt/edgecore/env")
SOURCES: Final = ROOT / "deploy" / "debian"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf"}
_SCRIPTS: Final = ("preinst", "prerm", "postinst", "postrm")
_OPTIONS: Final = "OPTIONS-OF-CLOUDCORE"
_UNPACKED: Final = 1 << 33
_LIBC_SYMBOL: Final = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)")
_SECONDS: Final = 900.0
_WHEEL_VERSION: Final = re.compile(r"(\d+\.\d+\.\d+)(?:\.(dev|post)(\d+))?(\+\w+(?:\.\w+)*)?")


def debian_version(version: str) -> str:
    """Return a version as dpkg orders it: what leads to a release is before it, what follows one is after it.

    Raises:
        ValueError: it is no version of edgecore.
    """
    found = _WHEEL_VERSION.fullmatch(version)
    if found is None:
        raise ValueError(version)
    release, kind, number, commit = found.groups()
    rest = {"dev": f"~dev{number}", "post": f"+post{number}", None: ""}[kind]
    return f"{release}{rest}{commit or ''}"


def oldest_libc(environment: Path) -> str:
    """Return the oldest version of the GNU C library that can load an environment's libraries, such as 2.34."""
    libraries = (path.read_bytes() for path in environment.rglob("*.so*") if path.is_file())
    needed = (tuple(map(int, found)) for library in libraries for found in _LIBC_SYMBOL.findall(library))
    return "{}.{}".format(*max(needed, default=(2, 17)))


def units() -> dict[str, str]:
    """Return the units of systemd by name: as the commands `unit` print them, for a node that has joined."""
    node = Unit(
        name="edgecore",
        description="edgecore, the edge node agent",
        command=[f"{ENVIRONMENT}/bin/edgecore", "run", "--config", str(KUBEEDGE_FILE)],
        after="containerd.service docker.service",
        user=False,
        service=(*SERVICE, PROTECTED, "EnvironmentFile=-/etc/default/edgecore"),
    )
    cloud = Unit(
        name="cloudcore",
        description="cloudcore, the cloud of edge nodes",
        command=[f"{ENVIRONMENT}/bin/cloudcore", "run", _OPTIONS],
        after="",
        user=False,
        service=("EnvironmentFile=-/etc/default/cloudcore",),
    )
    condition = f"ConditionPathExists={KUBEEDGE_FILE}"
    return {
        "edgecore.service": _of_package(node).replace("\n\n[Service]", f"\n{condition}\n\n[Service]"),
        "cloudcore.service": _of_package(cloud).replace(_OPTIONS, "$CLOUDCORE_OPTIONS"),
    }


def build(parts: Sequence[Path], version: str, seconds: int, into: Path) -> Path:
    """Build the package of wheels and their list; return it.

    Args:
        parts: the files.
        version: of the wheels.
        seconds: time of the release since the epoch.
        into: the directory.

    Raises:
        subprocess.SubprocessError: dpkg-deb fails; its output is on standard error.
    """
    python = "python{}.{}".format(*sys.version_info[:2])
    architecture = _ARCHITECTURES[platform.machine()]
    with tempfile.TemporaryDirectory(prefix="edgecore-deb-") as scratch:
        root = Path(scratch, "root")
        place = root / ENVIRONMENT.relative_to("/")
        make_environment(place, ENVIRONMENT, parts, b"{}", _UNPACKED, Path("/usr/bin", python))
        (place / MANIFEST).unlink()
        (root / "usr/bin").mkdir(parents=True)
        for name in ("edgecore", "cloudcore"):
            (root / "usr/bin" / name).symlink_to(ENVIRONMENT / "bin" / name)
            _write(root / "etc/default" / name, (SOURCES / f"{name}.default").read_text())
        for name, text in units().items():
            _write(root / "lib/systemd/system" / name, text)
        documents = root / "usr/share/doc/edgecore"
        documents.mkdir(parents=True)
        (place / SBOM).replace(documents / SBOM)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()) >> 10
        values = {
            "VERSION": debian_version(version), "ARCHITECTURE": architecture, "SIZE": str(size),
            "PYTHON_PACKAGE": python, "PYTHON": f"/usr/bin/{python}", "SCHEMA": str(NEWEST),
            "LIBC": oldest_libc(place), "DATE": format_datetime(datetime.fromtimestamp(seconds, UTC)),
            "MAINTAINER": os.environ.get("DEBEMAIL", "edgecore <edgecore@localhost>"),
        }  # fmt: skip

        def filled(name: str) -> str:
            text = (SOURCES / name).read_text()
            for key, value in values.items():
                text = text.replace(f"@{key}@", value)
            return text

        for name in ("control", *_SCRIPTS):
            _write(root / "DEBIAN" / name, filled(name))
            if name in _SCRIPTS:
                (root / "DEBIAN" / name).chmod(0o755)
        _write(documents / "copyright", filled("copyright"))
        for name, text in (("changelog", filled("changelog")), ("CHANGELOG.md", (ROOT / "CHANGELOG.md").read_text())):
            (documents / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        _write(root / "DEBIAN/conffiles", "/etc/default/edgecore\n/etc/default/cloudcore\n")
        into.mkdir(parents=True, exist_ok=True)
        target = into / f"edgecore_{values['VERSION']}_{architecture}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "--build", root, target],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}, check=True, timeout=_SECONDS,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return target


def _of_package(unit: Unit) -> str:
    """Return the text of a unit without the lines that say how to install it."""
    text = text_of(unit)
    return text[text.index("[Unit]") :]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_text(text)


def main() -> int:
    """Build the package of the release in a directory (default: dist)."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    if shutil.which("dpkg-deb") is None:
        sys.stderr.write("deb: dpkg-deb is missing: apt install dpkg\n")
        return 1
    own, version = released(directory)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="edgecore-wheels-") as scratch:
        target = build(parts_of(directory, Path(scratch)), version, released_at(own), directory)
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
