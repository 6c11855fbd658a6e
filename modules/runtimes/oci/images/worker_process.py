"""edgecore's side of a worker: the process, and the conversation with it (see `modules.runtimes.oci.images.worker`)."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec
from msgspec import Struct

from beehive.decoding import decode_json
from modules.runtimes.oci.images.errors import DeadlinePassedError, RunFailedError, refusal
from modules.runtimes.oci.images.model import StoredImage
from modules.runtimes.oci.images.worker import __file__ as _package
from modules.runtimes.oci.images.worker.conversation import LONGEST_LINE
from modules.runtimes.oci.images.worker.proxy_variables import PROXY_VARIABLES

_PROGRAM: Final = Path(_package).with_name("__main__.py")
_ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8"}
_INHERITED: Final = (*PROXY_VARIABLES, "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of edgecore that a worker needs: proxies, and the certificates of authorities for OpenSSL."""


class Needs(Struct, frozen=True):
    """The layers and blobs of an image."""

    layers: tuple[str, ...]
    blobs: tuple[str, ...]


class LayerProgress(Struct, frozen=True):
    """Progress of a layer of a pull, in bytes of the layer as the registry has it."""

    digest: str
    size: int
    fetched: int = 0
    unpacked: int = 0
    """Bytes that were read to unpack it."""


class WorkFailure(Struct, frozen=True):
    """The last line of a worker that failed."""

    kind: str
    reason: str
    hint: str = ""


class WorkerLine(Struct, frozen=True):
    """One line of a worker; one field is set."""

    progress: LayerProgress | None = None
    needs: Needs | None = None
    result: tuple[StoredImage, ...] | None = None
    error: WorkFailure | None = None


class WorkerProcess:
    """One worker, from its request to its result. Any thread may cancel it.

    Args:
        attempt: its task, as a phrase for errors.
        protect: protects the layers and blobs of an image from collection.
        progress: told how far a layer of a pull is.
    """

    def __init__(
        self, attempt: str, protect: Callable[[Needs], None], progress: Callable[[LayerProgress], None] | None = None
    ) -> None:
        self._attempt = attempt
        self._protect = protect
        self._progress = progress
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """End the worker, now or as soon as it starts; `run` raises DeadlinePassedError. Harmless at the end."""
        with self._lock:
            self._cancelled = True
            if self._process is not None and self._process.returncode is None:
                self._process.kill()

    def run(self, request: Mapping[str, Any]) -> tuple[StoredImage, ...]:
        """Let the worker do a request and return its images.

        The calling thread stays: the worker dies with it.

        Raises:
            RequestRefusedError: it failed, or was cancelled.
        """
        try:
            process = self._start()
        except OSError as error:
            raise RunFailedError(self._attempt, f"no process can be started: {error.strerror}") from error
        requests, answers = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        try:
            _write(requests, request)
            return self._converse(requests, answers)
        finally:
            with suppress(OSError):
                requests.close()
            answers.close()
            with self._lock:
                process.kill()
                process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._cancelled:
                raise self._gave_up()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env=worker_environment(os.environ),
            )
            return self._process

    def _converse(self, requests: BinaryIO, answers: BinaryIO) -> tuple[StoredImage, ...]:
        while (line := answers.readline(LONGEST_LINE)).endswith(b"\n"):
            found = self._decoded(line)
            if found.result is not None:
                return found.result
            if found.error is not None:
                raise refusal(self._attempt, found.error.kind, found.error.reason, found.error.hint)
            if found.needs is not None:
                self._protect(found.needs)
                _write(requests, {})
            elif found.progress is not None and self._progress is not None:
                self._progress(found.progress)
        if self._cancelled:
            raise self._gave_up()
        raise RunFailedError(self._attempt, "its process ended early", "see dmesg for a lack of memory")

    def _decoded(self, line: bytes) -> WorkerLine:
        try:
            return decode_json(line, WorkerLine)
        except msgspec.MsgspecError as error:
            raise RunFailedError(self._attempt, f"its process answered wrongly: {error}") from error

    def _gave_up(self) -> DeadlinePassedError:
        return DeadlinePassedError(self._attempt, "the client gave up, or its deadline has passed")


def worker_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return all variables of a worker, which meets registries and images, given edgecore's."""
    return {**_ENVIRONMENT, **{name: own[name] for name in _INHERITED if name in own}}


def _write(requests: BinaryIO, value: Mapping[str, Any]) -> None:
    with suppress(BrokenPipeError):  # a worker that ended gives the reason on the other stream
        requests.write(json.dumps(value).encode() + b"\n")
        requests.flush()
