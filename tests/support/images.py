"""Container images made on the spot, so that tests of runtimes need neither a registry nor a network.

An image is a docker-archive: a plain tar of a manifest, the image's config and its layers, which `ctr
images import` and `docker load` both read. Its files come from this machine: busybox (Debian's busybox-static)
for the commands of tests, and a program of a few lines that does nothing, for the sandbox. Archives are
deterministic: equal files give equal image ids.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from beehive.goarch import goarch

BUSYBOX: Final = Path("/bin/busybox")
BUSYBOX_IMAGE: Final = "docker.io/library/busybox:latest"
PAUSE_IMAGE: Final = "registry.k8s.io/pause:edgecore-test"

_PAUSE_SOURCE = """
#include <signal.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); for (;;) pause(); }
"""


@dataclass(frozen=True)
class ImageFile:
    """A file of a layer: its contents, or the target of a link."""

    path: str
    content: bytes = b""
    mode: int = 0o644
    link_to: str | None = None
    directory: bool = False


@dataclass(frozen=True)
class Image:
    """An image to be built: full name, files of its one layer, and what its config says of running it."""

    name: str
    files: tuple[ImageFile, ...]
    config: dict[str, Any] = field(default_factory=dict)


def busybox_image(name: str = BUSYBOX_IMAGE, **config: Any) -> Image:
    """busybox with a link for each applet, /etc/passwd, /tmp, and `sh` as its command.

    Keyword arguments go into the image's config as they are (`User`, `Env`, `Entrypoint`, `WorkingDir`, …).
    Another config, or another name with another `Labels`, makes another image to the runtime: ids are
    hashes of the config. A machine without busybox skips the test.
    """
    if not BUSYBOX.exists():
        pytest.skip("busybox is not installed (.ci/install-runtime)")
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    directories = (*_directories("bin", "etc", "home", "proc", "root", "sys", "var"), _directory("tmp", 0o1777))
    files = (
        ImageFile("bin/busybox", BUSYBOX.read_bytes(), mode=0o755),
        *(ImageFile(f"bin/{applet}", link_to="busybox") for applet in applets if applet != "busybox"),
        ImageFile("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/sh\n"),
        ImageFile("etc/group", b"root:x:0:\nnogroup:x:65534:\n"),
    )
    settings = {"Cmd": ["sh"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    return Image(name, (*directories, *files), {**settings, **config})


def pause_image(scratch: Path, name: str = PAUSE_IMAGE) -> Image:
    """The image of sandboxes: a static program that waits for SIGTERM, or busybox's `sleep` without gcc."""
    compiled = _compiled_pause(scratch)
    if compiled is None:
        busybox = (*_directories("bin"), ImageFile("bin/busybox", BUSYBOX.read_bytes(), mode=0o755))
        return Image(name, busybox, {"Entrypoint": ["/bin/busybox", "sleep", "2147483647"]})
    return Image(name, (ImageFile("pause", compiled, mode=0o755),), {"Entrypoint": ["/pause"]})


def parts(image: Image) -> tuple[bytes, bytes]:
    """The image's config and its one layer, an uncompressed tar: what a registry serves as blobs."""
    layer = _tar(image.files)
    return json.dumps(_image_config(image, hashlib.sha256(layer).hexdigest()), sort_keys=True).encode(), layer


def docker_archive(image: Image, directory: Path) -> Path:
    """Writes the image as a docker-archive into the directory; the file is named after its id."""
    config, layer = parts(image)
    layer_digest = hashlib.sha256(layer).hexdigest()
    image_id = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{image_id}.json", "RepoTags": [image.name], "Layers": [f"{layer_digest}/layer.tar"]}]
    members = (
        ImageFile("manifest.json", json.dumps(manifest).encode()),
        ImageFile(f"{image_id}.json", config),
        ImageFile(f"{layer_digest}/layer.tar", layer),
    )
    path = directory / f"{image_id[:12]}-{hashlib.sha256(image.name.encode()).hexdigest()[:8]}.tar"
    path.write_bytes(_tar(members))
    return path


def _image_config(image: Image, layer_digest: str) -> dict[str, Any]:
    return {
        "architecture": goarch(),
        "os": "linux",
        "config": image.config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created_by": "tests/support/images.py"}],
    }


def _tar(files: tuple[ImageFile, ...]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files:
            member = tarfile.TarInfo(file.path)
            member.mode = file.mode
            if file.directory:
                member.type = tarfile.DIRTYPE
            elif file.link_to is not None:
                member.type, member.linkname = tarfile.SYMTYPE, file.link_to
            else:
                member.size = len(file.content)
            archive.addfile(member, io.BytesIO(file.content) if member.isreg() else None)
    return buffer.getvalue()


def _directory(path: str, mode: int = 0o755) -> ImageFile:
    return ImageFile(path, mode=mode, directory=True)


def _directories(*paths: str) -> tuple[ImageFile, ...]:
    return tuple(_directory(path) for path in paths)


def _compiled_pause(scratch: Path) -> bytes | None:
    source, program = scratch / "pause.c", scratch / "pause"
    source.write_text(_PAUSE_SOURCE)
    command = ["gcc", "-static", "-Os", "-s", "-o", str(program), str(source)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return program.read_bytes()
