"""An image of this machine's busybox, so that the demo's real containers need neither a registry nor a network.

The archive has the form of `docker save`: manifest, configuration, and one layer.
"""

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from beehive.errors import BeehiveError

BUSYBOX: Final = Path("/bin/busybox")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_DIRECTORIES: Final = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "var")
_FILES: Final = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "etc/group": b"root:x:0:\n"}


class BusyboxMissingError(BeehiveError):
    """This machine has no static busybox."""


def write_archive(path: Path, names: Iterable[str]) -> None:
    """Write an archive of one image with these names. Raises BusyboxMissingError, OSError."""
    if not BUSYBOX.exists():
        raise BusyboxMissingError("make the image of the demo", str(BUSYBOX), "apt-get install busybox-static")
    layer = _layer()
    machine = os.uname().machine
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {"Cmd": ["sh"], "Env": [f"PATH={_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": sorted(set(names)), "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for name, content in (
            ("manifest.json", json.dumps(manifest).encode()),
            ("config.json", config),
            ("layer.tar", layer),
        ):
            _add(archive, name, content)


def _layer() -> bytes:
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as layer:
        for name in _DIRECTORIES:
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            layer.addfile(directory)
        _add(layer, "bin/busybox", BUSYBOX.read_bytes(), 0o755)
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                layer.addfile(link)
        for name, content in _FILES.items():
            _add(layer, name, content)
    return made.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
