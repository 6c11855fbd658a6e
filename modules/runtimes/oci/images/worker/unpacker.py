"""The process of a pull that unpacks: it has no thread, no connection and no credentials, and forks for each layer."""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.errors import MACHINE, ImageWorkError
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.publication import Publication
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, begin_position, position_in
from modules.runtimes.shim import kernel

_PROGRAM: Final = Path(__file__).with_name("__main__.py")
_LONGEST_JOB: Final = 128 * 1024
_LOOK_SECONDS: Final = 0.25
"""Between two looks how far the unpacking of a layer is."""
_ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8"}
"""edgecore's own may have a proxy's password."""


class Unpacker:
    """The puller's side. The process starts with the first layer, and ends with the pull.

    Args:
        root: of the store.
        limits: of one layer.
    """

    def __init__(self, root: Path, limits: UnpackLimits) -> None:
        self._settings = json.dumps({"root": str(root), "limits": limits._asdict()})
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def add_layer(
        self, source: LayerSource, diff_id: str, chain: Sequence[str], unpacked: Callable[[int], None]
    ) -> None:
        """As `Publication.add_layer`; `unpacked` is called with the number of the layer's bytes that were read.

        Raises ImageWorkError.
        """
        begin_position(source)
        job = {"size": source.size, "diff_id": diff_id, "chain": list(chain)}
        self._ask(self._started(), job, [source.descriptor], lambda: unpacked(position_in(source)))
        unpacked(source.size)

    def publish(self) -> bool:
        """Make all layers part of the store; return whether there were any, so that the disk is synced.

        Raises ImageWorkError.
        """
        if self._socket is not None:
            self._ask(self._socket, {"publish": True}, [], lambda: None)
        return self._socket is not None

    def _ask(self, peer: socket.socket, job: dict[str, Any], descriptors: list[int], look: Callable[[], None]) -> None:
        """Have a job done, and `look` how far it is from time to time until the answer comes."""
        try:
            socket.send_fds(peer, [json.dumps(job).encode()], descriptors)
            while not select.select([peer], [], [], _LOOK_SECONDS)[0]:
                look()
            answer = peer.recv(_LONGEST_JOB)
        except OSError as error:
            raise ImageWorkError(MACHINE, f"the process that unpacks has ended: {error.strerror}") from None
        found = read_json(answer) if answer else {"error": {"kind": MACHINE, "reason": "the unpacking ended early"}}
        if "error" in found:
            raise ImageWorkError(**found["error"])

    def close(self) -> None:
        """End the process."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno()), self._settings],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                )
        return self._socket


def serve_unpacking(descriptor: int, settings: str) -> None:
    """Unpack the layers that come over a socket, until its other end closes."""
    kernel.die_with_peer(descriptor)
    os.umask(0o077)
    given = read_json(settings)
    publication = Publication(StoreLayout(Path(given["root"])), UnpackLimits(**given["limits"]))
    with socket.socket(fileno=descriptor) as peer, publication:
        while True:
            job, descriptors, _, _ = socket.recv_fds(peer, _LONGEST_JOB, 1)
            if not job:
                return
            answer = _do(read_json(job), descriptors, publication)
            for each in descriptors:
                os.close(each)
            peer.send(json.dumps(answer).encode())


def _do(job: dict[str, Any], descriptors: list[int], publication: Publication) -> dict[str, Any]:
    try:
        if "publish" in job:
            publication.publish()
        else:
            publication.add_layer(LayerSource(descriptors[0], 0, job["size"]), job["diff_id"], job["chain"])
    except ImageWorkError as error:
        return {"error": {"kind": error.kind, "reason": error.reason, "hint": error.hint}}
    except OSError as error:
        return {"error": {"kind": MACHINE, "reason": str(error)}}
    return {}
