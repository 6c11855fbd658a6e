"""Records requests in the audit log while they are served."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Peer, Reply, Response, Stream, StreamHead, Takeover
from modules.cloud.audit.events import ALLOW, COMPLETE, FORBID, STARTED, audit_event
from modules.cloud.audit.log_file import AuditLog
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.rules import AccessRequest

_UNDECIDED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)
_LEFT_OUT: Final = (("healthz",), ("livez",), ("readyz",))
"""Paths that probes ask all the time."""
_READS: Final = ("GET", "HEAD")


class AuditRecord:
    """A request while it is served.

    Args:
        trail: writes the events; None: nothing is recorded.
        request: the request.
        received: seconds since the epoch.
        audit_id: identifies the request.
    """

    def __init__(self, trail: "AuditTrail | None", request: Request, received: float = 0.0, audit_id: str = "") -> None:
        self.user: User | None = None
        """Who was authenticated."""
        self.impersonated: User | None = None
        """As whom the request is served, if that is another user."""
        self.asked: AccessRequest | None = None
        self.is_forbidden = False
        """Whether the user lacks the right."""
        self._trail = trail
        self._request = request
        self._received = received
        self._id = audit_id
        self._code = 0

    def run(self, serve: Callable[[], Reply]) -> Reply:
        """Return the reply to the request, and record how it ends."""
        if self._trail is None:
            return serve()
        try:
            reply = serve()
        except HttpStatusError as error:
            self.end(error.status)
            raise
        except Exception:
            self.end(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise
        if isinstance(reply, Response):
            is_made = reply.status == HTTPStatus.CREATED and reply.content_type == "application/json"
            self.end(reply.status, reply.body if is_made else b"")
            return reply
        return self._followed(reply)

    def end(self, code: int, created: bytes = b"", stage: str = COMPLETE) -> None:
        """Record a stage of the request: its end, unless another one is given."""
        if self._trail is None:
            return
        who = self.impersonated or self.user
        is_forbidden = self.is_forbidden or (code == HTTPStatus.FORBIDDEN and who is not None and bool(who.node))
        is_decided = self.asked is not None and code not in _UNDECIDED
        event = audit_event(
            self._request, self._id, stage, user=self.user, impersonated=self.impersonated, asked=self.asked,
            created=created, code=code, decision=(FORBID if is_forbidden else ALLOW) if is_decided else "",
            received=self._received, now=self._trail.clock.now(),
        )  # fmt: skip
        self._trail.log.put(event)

    def _followed(self, reply: Stream | Takeover) -> Reply:
        """Return a stream whose beginning is recorded, and which records its end."""
        self._code = HTTPStatus.OK if isinstance(reply, Stream) else HTTPStatus.SWITCHING_PROTOCOLS
        self.end(self._code, stage=STARTED)

        def done() -> None:
            code, self._code = self._code, 0
            try:
                reply.done()
            finally:
                if code:
                    self.end(code)

        if isinstance(reply, Takeover) or reply.begin is None:
            return msgspec.structs.replace(reply, done=done)
        wait = reply.begin

        def begin(peer: Peer) -> StreamHead | Response:
            head = wait(peer)
            self._code = head.status
            return head

        return msgspec.structs.replace(reply, done=done, begin=begin)


class AuditTrail:
    """The recorder of requests in the audit log.

    Args:
        log: the file.
        clock: for times and ids.
    """

    def __init__(self, log: AuditLog, clock: Clock) -> None:
        self.log = log
        self.clock = clock

    def begin(self, request: Request) -> AuditRecord:
        """Return the record of a request; of a probe's, one that records nothing."""
        if request.parts in _LEFT_OUT and request.method in _READS:
            return AuditRecord(None, request)
        return AuditRecord(self, request, self.clock.now(), self.clock.new_id())


def begin_record(trail: AuditTrail | None, request: Request) -> AuditRecord:
    """Return the record of a request; without an audit log, one that records nothing."""
    return AuditRecord(None, request) if trail is None else trail.begin(request)
