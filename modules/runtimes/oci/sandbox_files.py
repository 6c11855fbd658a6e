"""The files of a sandbox that its containers mount: hostname, hosts, resolv.conf, and the memory at /dev/shm."""

import socket
from pathlib import Path
from typing import Final

from beehive.files.durable import replace_soon
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.oci.network.resolv_conf import resolv_conf
from modules.runtimes.oci.spec import SandboxFiles
from modules.runtimes.oci.users import give_to_root
from protos.cri.v1 import api_pb2 as cri

SHM_BYTES: Final = 64 * 1024 * 1024
"""Size of a pod's /dev/shm, as with containerd."""

_HOSTS: Final = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_READABLE: Final = 0o644
_NAMES: Final = ("hostname", "hosts", "resolv.conf")


def write_sandbox_files(sandbox: Sandbox) -> None:
    """Write the files into the directory of the sandbox. Raises OSError, BadRequestError."""
    config = sandbox.config
    is_own = config.linux.security_context.namespace_options.network != cri.NODE
    hostname = (config.hostname if is_own else "") or socket.gethostname()
    texts = (f"{hostname}\n", _HOSTS, resolv_conf(config.dns_config))
    for name, text in zip(_NAMES, texts, strict=True):
        replace_soon(sandbox.directory / name, text.encode(), _READABLE)
        give_to_root(config, sandbox.directory / name)


def sandbox_files(directory: Path, shm: Path) -> SandboxFiles:
    """Return the paths of the files in the directory of a sandbox."""
    hostname, hosts, resolver = (directory / name for name in _NAMES)
    return SandboxFiles(hostname=hostname, hosts=hosts, resolv_conf=resolver, shm=shm)
