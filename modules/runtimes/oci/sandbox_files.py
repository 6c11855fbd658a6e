"""The files of a sandbox that its containers mount: hostname, hosts, resolv.conf, and the memory at /dev/shm."""

import ipaddress
import socket
from pathlib import Path
from typing import Final

from beehive.files.durable import write_soon
from beehive.files.reading import read_file
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.oci.spec import SandboxFiles
from modules.runtimes.oci.users import give_to_root
from protos.cri.v1 import api_pb2 as cri

SHM_BYTES: Final = 64 * 1024 * 1024
"""Size of a pod's /dev/shm, as with containerd."""

_HOSTS: Final = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_READABLE: Final = 0o644
_NAMES: Final = ("hostname", "hosts", "resolv.conf")
MOUNTED: Final = ("dev/", "proc/", "sys/", *(f"etc/{name}" for name in _NAMES))
"""Where containers have the kernel's file systems and the files, or something else that is mounted there, relative to
their roots.
"""

MACHINE: Final = Path("/etc/resolv.conf")
UPSTREAM: Final = Path("/run/systemd/resolve/resolv.conf")
"""The file where systemd-resolved lists the servers behind its own address, which only the machine's network
reaches.
"""

_MOST_BYTES: Final = 64 * 1024


def resolv_conf(
    config: cri.DNSConfig | None, machine: Path = MACHINE, upstream: Path = UPSTREAM, *, is_own: bool = True
) -> str:
    """Return the file's text: CRI's configuration of DNS, or else the machine's.

    Args:
        config: the pod's servers, search domains and options; None or empty for the machine's.
        machine: the machine's file; a missing one is empty.
        upstream: taken instead when the machine's names only servers that pods do not reach.
        is_own: whether the pod has a network of its own, where such servers are left out.

    Raises:
        BadRequestError: a word of the configuration has blanks or control characters.
        OSError: the machine's file cannot be read.
    """
    if config is not None and (config.servers or config.searches or config.options):
        return _text(config)
    text = _read(machine)
    lines = text.splitlines(keepends=True)
    reached = [line for line in lines if not _is_the_machines(line)]
    if not is_own or len(reached) == len(lines):
        return text
    if not any(line.split()[:1] == ["nameserver"] for line in reached):
        reached = [line for line in _read(upstream).splitlines(keepends=True) if not _is_the_machines(line)] or reached
    return "".join(reached)


def _is_the_machines(line: str) -> bool:
    """Return whether a line names a server of an address that has no meaning outside of the machine's network."""
    words = line.split()
    if len(words) < 2 or words[0] != "nameserver":
        return False
    try:
        address = ipaddress.ip_address(words[1])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or (address.version == 6 and address.is_link_local)


def _text(config: cri.DNSConfig) -> str:
    for word in (*config.servers, *config.searches, *config.options):
        if not word.isprintable() or " " in word or not word:
            reason = f"{word[:100]!r} is no server, domain or option"
            raise BadRequestError("write the resolv.conf of the pod", reason)
    lines = [f"search {' '.join(config.searches)}"] if config.searches else []
    lines += [f"nameserver {server}" for server in config.servers]
    lines += [f"options {' '.join(config.options)}"] if config.options else []
    return "".join(f"{line}\n" for line in lines)


def _read(path: Path) -> str:
    try:
        return read_file(path, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def paths_of(directory: Path) -> tuple[Path, ...]:
    """Return the files in the directory of a sandbox that containers may write."""
    return tuple(Path(f"{directory}/{name}") for name in _NAMES)


def write_sandbox_files(sandbox: Sandbox) -> None:
    """Write the files into the directory of a new sandbox. Raises OSError, BadRequestError."""
    config = sandbox.config
    is_own = config.linux.security_context.namespace_options.network != cri.NODE
    hostname = (config.hostname if is_own else "") or socket.gethostname()
    texts = (f"{hostname}\n", _HOSTS, resolv_conf(config.dns_config, is_own=is_own))
    paths = [f"{sandbox.directory}/{name}" for name in _NAMES]
    for path, text in zip(paths, texts, strict=True):
        write_soon(path, text.encode(), _READABLE)
    give_to_root(config, *paths)


def sandbox_files(directory: Path, shm: Path) -> SandboxFiles:
    """Return the paths of the files in the directory of a sandbox."""
    hostname, hosts, resolver = paths_of(directory)
    return SandboxFiles(hostname=hostname, hosts=hosts, resolv_conf=resolver, shm=shm)
