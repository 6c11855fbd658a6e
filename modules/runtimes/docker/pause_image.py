"""The image of the container that holds a pod's namespaces: one program of a few instructions, which waits for ever.

The image is built here, so that a node needs no registry for it. The program ignores SIGCHLD, so that the kernel keeps
no zombies of the orphans that it adopts as first process of a pod (shareProcessNamespace), and waits in ppoll(2).
"""

import hashlib
import io
import json
import os
import struct
import tarfile
from typing import Final, NamedTuple

from modules.runtimes.docker.client import DockerClient, part
from modules.runtimes.engine.errors import NoSuchObjectError, NotProvidedError
from modules.runtimes.oci.network.pause.elf import executable

NAME: Final = "edgecore/pause:1"
PROGRAM: Final = "/pause"
_EXECUTABLE: Final = 0o755


class Processor(NamedTuple):
    """Its name in images, its number and flags in ELF, whether it has 64 bits, and the program's instructions.

    They are rt_sigaction(SIGCHLD, SIG_IGN), then for ever ppoll() of nothing.
    """

    name: str
    machine: int
    flags: int
    wide: bool
    code: bytes


_X86_64: Final = bytes.fromhex(
    "6a006a006a006a01"  # push 0, 0, 0, 1: a struct sigaction with SIG_IGN
    "b80d000000 bf11000000 4889e6 31d2 41ba08000000 0f05"  # rt_sigaction(SIGCHLD, rsp, NULL, 8)
    "b80f010000 31ff 31f6 31d2 4531d2 4531c0 0f05"  # ppoll(NULL, 0, NULL, NULL, 0)
    "ebeb"  # again
)
_AARCH64: Final = struct.pack(
    "<18I",
    *(0xD10083FF, 0xD2800021, 0xA9007FE1, 0xA9017FFF),  # sub sp, sp, 32; mov x1, 1; stp x1, xzr, [sp]; stp xzr, xzr …
    *(0xD2800220, 0x910003E1, 0xD2800002, 0xD2800103, 0xD28010C8, 0xD4000001),  # rt_sigaction(SIGCHLD, sp, NULL, 8)
    *(0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800004, 0xD2800928, 0xD4000001),  # ppoll(NULL, 0, …)
    0x17FFFFF9,  # again
)
_ARM: Final = struct.pack(
    "<21I",
    *(0xE24DD018, 0xE3A01001, 0xE3A02000, 0xE58D1000),  # sub sp, sp, 24; mov r1, 1; mov r2, 0; str r1, [sp]
    *(0xE58D2004, 0xE58D2008, 0xE58D200C, 0xE58D2010),  # str r2, [sp, 4]; …
    *(0xE3A00011, 0xE1A0100D, 0xE3A03008, 0xE3A070AE, 0xEF000000),  # rt_sigaction(SIGCHLD, sp, NULL, 8)
    *(0xE3A00000, 0xE3A01000, 0xE3A02000, 0xE3A03000, 0xE3A04000, 0xE3A07F54, 0xEF000000),  # ppoll(NULL, 0, …)
    0xEAFFFFF7,  # again
)
PROCESSORS: Final = {
    "x86_64": Processor("amd64", 62, 0, wide=True, code=_X86_64),
    "aarch64": Processor("arm64", 183, 0, wide=True, code=_AARCH64),
    "armv7l": Processor("arm", 40, 0x05000000, wide=False, code=_ARM),
    "armv6l": Processor("arm", 40, 0x05000000, wide=False, code=_ARM),
}
"""The supported processors, by the names that `uname -m` prints."""


def ensure_pause_image(docker: DockerClient) -> None:
    """Load the image into Docker unless Docker has it. Raises RequestRefusedError."""
    attempt = f"load the image {NAME}"
    try:
        docker.call("GET", f"/images/{part(NAME)}/json", attempt)
    except NoSuchObjectError:
        docker.send("/images/load", attempt, pause_archive(os.uname().machine), {"quiet": "1"})


def pause_archive(machine: str) -> bytes:
    """Return the image for a processor (`uname -m`) as `docker save` writes it. Raises NotProvidedError."""
    processor = PROCESSORS.get(machine)
    if processor is None:
        hint = "use embedded://oci or containerd"
        raise NotProvidedError("hold the namespaces of pods", f"there is no program for the processor {machine}", hint)
    layer = _tar({PROGRAM.lstrip("/"): pause_program(processor)}, _EXECUTABLE)
    config = json.dumps(
        {
            "architecture": processor.name,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Entrypoint": [PROGRAM]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        },
        sort_keys=True,
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [NAME], "Layers": ["layer.tar"]}]).encode()
    return _tar({"layer.tar": layer, name: config, "manifest.json": manifest}, 0o644)


def pause_program(processor: Processor) -> bytes:
    """Return an executable file that contains only these instructions."""
    return executable(processor.machine, processor.flags, 64 if processor.wide else 32, processor.code)


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
