"""`make release`: the wheels and the sdist of the commit that is checked out, the same bytes wherever they are built.

They are built from a clone of the commit, with its time as `SOURCE_DATE_EPOCH`. What differs between machines is set:
umask, time zone, language, hashes of Python, and what tar says of a file. Python, zlib and setuptools must be equal.
"""

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Final, NamedTuple

from modules.processes.common.source_version import SourceCommit, checked_out

ROOT: Final = Path(__file__).resolve().parents[2]
CONSTRAINTS: Final = ("constraints.txt", "constraints-cloud.txt")
_BUILD: Final = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
_SECONDS: Final = 600.0


class Part(NamedTuple):
    """A distribution beside edgecore, made of files of the same commit; `deploy/NAME/setup.cfg` has its metadata."""

    name: str
    """Without `edgecore-`."""
    files: Mapping[str, str]
    """Files and directories, and where they are in the distribution."""
    ours: tuple[str, ...] = ()
    """Distributions of the same version that it needs."""
    needs: tuple[str, ...] = ()
    """Which of the dependencies of edgecore it needs, in the versions that setup.cfg allows."""
    renamed: Mapping[str, str] = {}
    """Modules that have another name in the distribution."""


PARTS: Final = (
    Part("lab", {"modules/lab": "modules/lab"}, ours=("edgecore",)),
    Part("beehive", {"beehive": "beehive"}, needs=("pykka", "msgspec", "msgpack", "h11", "greenlet")),
    Part(
        "mapper",
        {
            "edgecore_mapper": "edgecore_mapper",
            "protos/dmi/v1beta1/__init__.py": "edgecore_mapper/dmi/__init__.py",
            "protos/dmi/v1beta1/api_pb2.py": "edgecore_mapper/dmi/api_pb2.py",
            "protos/dmi/v1beta1/api_pb2.pyi": "edgecore_mapper/dmi/api_pb2.pyi",
            "modules/apimachinery/device_properties.py": "edgecore_mapper/device_properties.py",
        },
        ours=("edgecore-beehive",),
        needs=("grpcio", "protobuf", "msgspec"),
        renamed={
            "protos.dmi.v1beta1": "edgecore_mapper.dmi",
            "modules.apimachinery.device_properties": "edgecore_mapper.device_properties",
        },
    ),
)


class ReleaseError(Exception):
    """What is checked out cannot be released."""


def build(root: Path, into: Path) -> list[Path]:
    """Build the commit that a clone has checked out; return the wheels, the sdist, the constraints and SHA256SUMS.

    They replace an earlier commit's in the directory.

    Raises:
        ReleaseError: files differ from the commit, or the clone does not know its history.
        subprocess.CalledProcessError: git or setuptools failed; its output is on standard error.
    """
    source = checked_out(root)
    if source is None or not source.commits:
        raise ReleaseError("a release needs a clone with its history: git fetch --unshallow")
    if source.is_modified:
        raise ReleaseError("files differ from the commit, which alone is released: commit them first")
    with tempfile.TemporaryDirectory(prefix="edgecore-release-") as scratch:
        clone, built = Path(scratch, "source"), Path(scratch, "built")
        _run(["git", "clone", "--quiet", str(root), str(clone)], root, source)
        _run(["git", "checkout", "--quiet", "--detach", source.hash], clone, source)
        for hook in ("build_wheel", "build_sdist"):
            _run([sys.executable, "-c", _BUILD, hook, str(built)], clone, source)
        version = next(built.glob("*.whl")).name.split("-")[1]
        for part in PARTS:
            sources = sources_of(part, clone, version, Path(scratch, part.name))
            _run([sys.executable, "-c", _BUILD, "build_wheel", str(built)], sources, source)
        for archive in built.glob("*.tar.gz"):
            normalize(archive, source.time)
        for name in CONSTRAINTS:
            shutil.copyfile(clone / name, built / name)
        files = sorted(built.iterdir())
        sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
        (built / "SHA256SUMS").write_text(sums)
        into.mkdir(parents=True, exist_ok=True)
        for earlier in [*into.glob("edgecore-*"), *into.glob("edgecore_*")]:
            earlier.unlink()
        return [Path(shutil.copy(file, into)) for file in [*files, built / "SHA256SUMS"]]


def sources_of(part: Part, clone: Path, version: str, into: Path) -> Path:
    """Make the directory that a part is built in: its own metadata, and copies of its files; return it."""
    shutil.copytree(clone / "deploy" / part.name, into)
    for source, target in part.files.items():
        (into / target).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (clone / source).is_dir() else shutil.copy
        copy(clone / source, into / target)
    for file in into.rglob("*.py") if part.renamed else ():
        text = file.read_text()
        for ours, theirs in part.renamed.items():
            text = text.replace(ours, theirs)
        file.write_text(text)
    shutil.copy(clone / "LICENSE", into / "LICENSE")  # with its mode, whatever the umask
    (into / "VERSION").write_text(version)
    config = ConfigParser(interpolation=None)
    config.read(clone / "setup.cfg")
    lines = config["options"]["install_requires"].splitlines()
    needs = [line for line in lines if line.startswith(tuple(f"{name}>" for name in part.needs))]
    (into / "requirements.txt").write_text(
        "".join(f"{one}\n" for one in [*(f"{o}=={version}" for o in part.ours), *needs])
    )
    return into


def _run(command: list[str], where: Path, source: SourceCommit) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GIT_", "LC_"))}
    fixed = {"SOURCE_DATE_EPOCH": str(source.time), "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    subprocess.run(
        command, cwd=where, env=kept | fixed, umask=0o022, check=True, timeout=_SECONDS, stdout=subprocess.DEVNULL
    )


def normalize(archive: Path, time: int) -> None:
    """Rewrite an sdist: members by name, all of one time and of no user, in a gzip file without name and time."""
    with tarfile.open(archive) as tar:
        members = [(member, tar.extractfile(member)) for member in sorted(tar.getmembers(), key=lambda one: one.name)]
        with (
            Path(f"{archive}.new").open("wb") as raw,
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=time) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as anew,
        ):
            for member, content in members:
                member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                anew.addfile(member, content)
    Path(f"{archive}.new").replace(archive)


def main() -> int:
    """Build what is checked out into the directory that is named (default: dist)."""
    try:
        files = build(ROOT, Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
    except (ReleaseError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write("".join(f"{file}\n" for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
