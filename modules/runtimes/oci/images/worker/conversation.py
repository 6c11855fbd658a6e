"""The worker's side of its conversation with edgecore: JSON lines.

The first line from edgecore is the request. The worker writes

    {"progress": {"digest", "size", "fetched", "unpacked"}}, of one layer, in bytes of the layer as it is fetched
    {"needs": {"layers": [CHAIN IDS], "blobs": [DIGESTS]}}
        and waits for a line; from then on nothing of it is collected
    {"result": [IMAGES]} or {"error": {"kind", "reason", "hint"}}, the last line
"""

import json
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.documents import Config
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.layer_progress import LayerReport
from modules.runtimes.oci.images.worker.references import Reference

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one line: a config of 4 MiB, escaped."""


class FinishedImage(NamedTuple):
    """An image whose layers and documents are in the store."""

    names: Sequence[Reference]
    digest: str
    """Digest of the topmost document; empty if unknown."""
    config_digest: str
    config: Config
    chain: Sequence[str]
    documents: dict[str, int]
    """Bytes of index, manifest and config, by digest."""
    layer_blobs: dict[str, int]
    """Bytes of the layers as they came, by digest, if they are kept."""


class Conversation:
    """A reader of requests, and a writer of answers from any thread.

    Args:
        requests, answers: streams of lines.
    """

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._lock = threading.Lock()

    def request(self) -> dict[str, Any]:
        """Return the request. Raises EOFError when edgecore has ended."""
        line = self._requests.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise EOFError
        found: dict[str, Any] = read_json(line)
        return found

    def need(self, layers: Sequence[str], blobs: Sequence[str]) -> None:
        """Send edgecore the image's layers and blobs; return when edgecore protects them."""
        self._write({"needs": {"layers": list(layers), "blobs": list(blobs)}})
        self.request()

    def progress(self, layer: LayerReport) -> None:
        """Tell how far a layer is."""
        self._write({"progress": layer._asdict()})

    def finish(self, images: Sequence[FinishedImage]) -> None:
        """Report the images."""
        self._write({"result": [_image(each) for each in images]})

    def fail(self, error: ImageWorkError) -> None:
        """Report the failure."""
        self._write({"error": {"kind": error.kind, "reason": error.reason, "hint": error.hint}})

    def _write(self, value: dict[str, Any]) -> None:
        with self._lock:
            self._answers.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")
            self._answers.flush()


def _image(image: FinishedImage) -> dict[str, Any]:
    digests = dict.fromkeys(
        f"{each.repository}@{image.digest}" for each in image.names if each.digest in ("", image.digest)
    )
    return {
        "id": image.config_digest,
        "repo_tags": list(dict.fromkeys(each.tagged for each in image.names if each.tagged)),
        "repo_digests": list(digests) if image.digest else [],
        "config": image.config.run,
        "chain": list(image.chain),
        "documents": image.documents,
        "layer_blobs": image.layer_blobs,
    }
