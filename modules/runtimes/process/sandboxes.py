"""The sandboxes of pods whose containers are plain processes of the machine."""

import socket

from modules.runtimes.cri_server.records import SandboxRecord
from modules.runtimes.cri_server.sandboxes import SandboxOperations
from modules.runtimes.process.model import EmbeddedContainer

_SOMEWHERE = ("192.0.2.1", 9)
"""An address of the documentation range (RFC 5737): connecting a UDP socket to it sends nothing."""


class EmbeddedSandboxes(SandboxOperations[EmbeddedContainer]):
    """Sandboxes that share the machine's network and have nothing of their own."""

    def _first_record(self) -> SandboxRecord:
        return SandboxRecord(self._clock.now_ns(), node_ip(), self._boot_id)


def node_ip() -> str:
    """Return the machine's source address towards others, the IP of every pod here; 127.0.0.1 without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
