"""The images of the contract, served by a registry of this machine: busybox with other settings under each tag."""

import gzip
import platform
import struct
from functools import cache
from typing import Any, Final

from modules.runtimes.oci.images.worker import platforms
from tests.modules.runtimes.oci.images.registry import TestRegistry
from tests.support.images import Image, ImageFile, busybox_image, parts

_PASSWD: Final = (
    b"root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n"
    b"nobody:x:65534:65534:nobody:/home:/bin/sh\n"
)
_GROUP: Final = b"root:x:0:\nwww-data:x:33:\nuser:x:1000:\nextra:x:50000:user\nnogroup:x:65534:\n"
_EXITS_WITH_EUID: Final = {
    "x86_64": (62, bytes.fromhex("b86b0000000f0589c7b83c0000000f05")),
    "aarch64": (183, bytes.fromhex("e81580d2010000d4a80b80d2010000d4")),
}
"""By machine: its number in ELF, and a program: exit(geteuid()). Whether a program's set-user-id bit counts."""
_LOADED_AT: Final = 0x40_0000
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "busybox": {"Cmd": ["sh"]},
    "web": {"Cmd": ["httpd", "-f", "-p", "80", "-h", "/www"]},
    "euid": {"Entrypoint": ["/bin/euid"], "User": "1000"},
    "latest": {"Labels": {"is": "latest"}},
    "test": {"Labels": {"is": "test"}},
    "digest": {"Labels": {"is": "digest"}},
    "twice": {"Labels": {"is": "twice"}},
    "one": {"Labels": {"is": "one"}},
    "two": {"Labels": {"is": "two"}},
    "three": {"Labels": {"is": "three"}},
    "user-uid": {"User": "1002"},
    "user-username": {"User": "www-data"},
    "user-uid-group": {"User": "1003:users"},
    "user-username-group": {"User": "www-data:100"},
    "predefined-group": {"User": "1000"},
    "volumes": {"Volumes": {"/data": {}, "/www": {}, "/sys/fs/cgroup": {}}},
}
"""By tag, what the image says of running it. All have the same layer."""
SAME: Final = ("same-1", "same-2", "same-3")
"""Tags of one more image."""
SMALL_ARCHITECTURE: Final = "arm" if platform.machine() == "aarch64" else "386"
"""The architecture of the image `small`: the 32-bit one of this machine's processors."""


class ContractImages(TestRegistry):
    """A registry with the images of the contract. Use as a context manager."""

    __test__ = False

    def __init__(self) -> None:
        _layer()  # a machine that cannot make it skips the test; there is nothing to close yet
        super().__init__()
        self.digests = {tag: self._serve(tag, config) for tag, config in _SETTINGS.items()}
        self.add([_small_layer()], "small", Entrypoint=["/program"], architecture=SMALL_ARCHITECTURE)
        for tag in SAME:
            self._serve(tag, {"Labels": {"is": "same"}})

    def name(self, tag: str, host: str = "127.0.0.1") -> str:
        """The full name of the image with this tag."""
        return f"{host}:{self.address.rpartition(':')[2]}/contract/image:{tag}"

    def untagged(self) -> str:
        """The name of the image `latest`, without its tag."""
        return self.name("").rstrip(":")

    def by_digest(self, tag: str) -> str:
        """The name of an image with its digest in place of its tag."""
        return f"{self.untagged()}@{self.digests[tag]}"

    def _serve(self, tag: str, config: dict[str, Any]) -> str:
        settings = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["sh"]}
        return self.add([_layer()], tag, pack=_packed, **{**settings, **config})


@cache
def _layer() -> bytes:
    """busybox, users and groups, a page for its web server, and a set-user-id program."""
    usual = [each for each in busybox_image().files if each.path not in ("etc/passwd", "etc/group")]
    files = (
        *usual,
        ImageFile("etc/passwd", _PASSWD),
        ImageFile("etc/group", _GROUP),
        ImageFile("www", mode=0o755, directory=True),
        ImageFile("www/index.html", b"the page of the contract\n"),
        ImageFile("bin/euid", _program(), mode=0o4755),
    )
    return parts(Image("layer", files))[1]


@cache
def _packed(layer: bytes) -> bytes:
    return gzip.compress(layer, 1, mtime=0)


def _small_layer() -> bytes:
    """A program of 32 bits that ends with the code 77."""
    return parts(Image("small", (ImageFile("program", platforms.program(SMALL_ARCHITECTURE), mode=0o755),)))[1]


def _program() -> bytes:
    """An ELF file of this machine that exits with its effective user id (its lowest 8 bits)."""
    number, code = _EXITS_WITH_EUID.get(platform.machine(), (0, b""))
    head, part = 64, 56
    size = head + part + len(code)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = struct.pack("<HHIQQQIHHHHHH", 2, number, 1, _LOADED_AT + head + part, head, 0, 0, head, part, 1, 0, 0, 0)
    loaded = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOADED_AT, _LOADED_AT, size, size, 0x1000)
    return ident + elf + loaded + code
