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
from math import inf
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from beehive.files.descriptors import OwnedFd
from beehive.rate import TokenBucket
from modules.cloud.bundle_names import BUNDLE_NAME
from modules.cloud.cloudhub.certificates.enrolment import EnrolmentRequest, EnrolmentResponse, error_response
from modules.cloud.identities.peer import CertifiedPeer

PATH: Final = "/bundles/"
PIECE: Final = 1024 * 1024
"""Bytes of a response at most."""
_RANGE: Final = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?", re.ASCII)
_BURST: Final = 4
"""Pieces that are sent at once after a rest."""
_LATE: Final = 5.0
"""Seconds that a node may come later than it was told, and have its turn nevertheless."""
_MOST: Final = 1024
"""Nodes whose turns are known."""


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
        self._served: dict[str, float] = {}
        """When nodes have had their last pieces, the longest ago first, in monotonic seconds."""
        self._waiting: dict[str, float] = {}
        """Until when the turns of nodes that were told to come again are kept."""

    def answer(self, request: EnrolmentRequest) -> EnrolmentResponse:
        """Return a piece of a bundle, or why there is none."""
        peer = request.peer
        if peer is None or not peer.node:
            return error_response(HTTPStatus.UNAUTHORIZED, "bundles are for nodes, by their certificates")
        if why := self._refusal_of(peer):
            return error_response(HTTPStatus.FORBIDDEN, why)
        name = request.path.removeprefix(PATH)
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        if BUNDLE_NAME.fullmatch(name) is None:
            return error_response(HTTPStatus.NOT_FOUND, "no name of a bundle")
        if wanted is None:
            return error_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "ask for a range: bytes=FIRST-LAST")
        if wait := self._wait_of(peer.node):
            busy = error_response(HTTPStatus.SERVICE_UNAVAILABLE, "other nodes are served: try again soon")
            return EnrolmentResponse(busy.status, busy.body, busy.content_type, (("Retry-After", str(int(wait) + 1)),))
        try:
            return self._piece(name, int(wanted[1]), int(wanted[2] or 10**15))
        except OSError:
            return error_response(HTTPStatus.NOT_FOUND, "there is no such bundle")

    def _wait_of(self, node: str) -> float:
        """Return 0 if a node has its turn, or the seconds after which it is to come again. Of those that wait, the one
        that was served longest ago has its turn first: a node that asks without end holds up no other.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._waiting = {each: until for each, until in self._waiting.items() if until > now and each != node}
            served = self._served.get(node, -inf)
            is_behind = any(self._served.get(each, -inf) < served for each in self._waiting)
            if wait := 1.0 if is_behind else self._bucket.reserve(now):
                if len(self._waiting) < _MOST:
                    self._waiting[node] = now + wait + _LATE
                return wait
            self._served.pop(node, None)
            self._served[node] = now
            if len(self._served) > _MOST:
                del self._served[next(iter(self._served))]
        return 0.0

    def _piece(self, name: str, first: int, last: int) -> EnrolmentResponse:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with OwnedFd(os.open(self._directory / name, flags)) as descriptor:
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
