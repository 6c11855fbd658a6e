"""Bundles of edgecore for nodes, which are sent in pieces to whoever has a node's certificate.

A node asks for a range of a file (RFC 9110, 14) and goes on where it was cut off. What a bundle is worth is for the
node to decide, by its signature: the cloud cannot make one that a node takes.
"""

import os
import re
import stat
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from beehive.rate import TokenBucket
from modules.cloud.cloudhub.certificates.enrolment import EnrolmentRequest, EnrolmentResponse, error_response
from modules.cloud.identities.peer import CertifiedPeer

PATH: Final = "/bundles/"
PIECE: Final = 1024 * 1024
"""Bytes of a response at most."""
_NAME: Final = re.compile(r"edgecore-[A-Za-z0-9.+]{1,60}-cp[0-9]{2,4}-[A-Za-z0-9_]{1,30}\.bundle", re.ASCII)
_RANGE: Final = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?", re.ASCII)
_BURST: Final = 4
"""Pieces that are sent at once after a rest."""


class BundleDirectory:
    """The bundles in a directory, and the answers to requests for pieces of them. Thread-safe.

    Args:
        directory: has the files, as `make bundle` names them.
        clock: for the rate.
        rate: bytes a second, of all nodes together.
        refusal_of: why a certificate is refused, or "".
    """

    def __init__(self, directory: Path, clock: Clock, rate: int, refusal_of: Callable[[CertifiedPeer], str]) -> None:
        self._directory = directory
        self._clock = clock
        self._refusal_of = refusal_of
        self._lock = threading.Lock()
        self._bucket = TokenBucket(rate / PIECE, _BURST)

    def answer(self, request: EnrolmentRequest) -> EnrolmentResponse:
        """Return a piece of a bundle, or why there is none."""
        peer = request.peer
        if peer is None or not peer.node:
            return error_response(HTTPStatus.UNAUTHORIZED, "bundles are for nodes, by their certificates")
        if why := self._refusal_of(peer):
            return error_response(HTTPStatus.FORBIDDEN, why)
        name = request.path.partition("?")[0].removeprefix(PATH)
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        if _NAME.fullmatch(name) is None:
            return error_response(HTTPStatus.NOT_FOUND, "no name of a bundle")
        if wanted is None:
            return error_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "ask for a range: bytes=FIRST-LAST")
        with self._lock:
            wait = self._bucket.reserve(self._clock.monotonic())
        if wait:
            busy = error_response(HTTPStatus.SERVICE_UNAVAILABLE, "other nodes are served: try again soon")
            return EnrolmentResponse(busy.status, busy.body, busy.content_type, (("Retry-After", str(int(wait) + 1)),))
        try:
            return self._piece(name, int(wanted[1]), int(wanted[2] or 10**15))
        except OSError:
            return error_response(HTTPStatus.NOT_FOUND, "there is no such bundle")

    def _piece(self, name: str, first: int, last: int) -> EnrolmentResponse:
        descriptor = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb"):
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return error_response(HTTPStatus.NOT_FOUND, "there is no such bundle")
            tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
            if first >= status.st_size or last < first:
                refused = error_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "the bundle ends before that")
                size = (("Content-Range", f"bytes */{status.st_size}"), ("ETag", tag))
                return EnrolmentResponse(refused.status, refused.body, refused.content_type, size)
            body = os.pread(descriptor, min(PIECE, last - first + 1), first)
        headers = (("Content-Range", f"bytes {first}-{first + len(body) - 1}/{status.st_size}"), ("ETag", tag))
        return EnrolmentResponse(HTTPStatus.PARTIAL_CONTENT, body, headers=headers)
