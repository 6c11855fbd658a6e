"""The sign-ins at the page, as entries of the change journal."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from beehive.clock import Clock
from beehive.http.request import Request
from beehive.rate import TokenBucket
from modules.cloud.audit.recording import AuditTrail, begin_record
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.object_writes import SIGN_IN_REFUSED, SIGNED_IN, ObjectWrite, access_entry

MOST_AT_ONCE: Final = 10
"""Entries of a user, or of all that are refused, in a burst; then one each `SECONDS`."""
SECONDS: Final = 30.0
MOST_USERS: Final = 256


class _Entries:
    """The entries of a user."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(1 / SECONDS, MOST_AT_ONCE)
        self.left_out = 0


class SignIns:
    """The record of who signs in, and whose credentials are refused. What comes too often is counted, and told by the
    next entry. Thread-safe.

    Args:
        clock: for times.
        note: is given the entries.
        audit: records all of them; None: nothing does.
    """

    def __init__(self, clock: Clock, note: Callable[[ObjectWrite], None], audit: AuditTrail | None = None) -> None:
        self._audit = audit
        self._clock = clock
        self._note = note
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entries] = OrderedDict()
        """By user, the least recent first."""
        self._refused = _Entries()

    def succeeded(self, request: Request, by: str, user: str) -> None:
        """Note that a user has signed in, by a token, a certificate or an identity provider."""
        with self._lock:
            entries = self._entries.setdefault(user, _Entries())
            self._entries.move_to_end(user)
            if len(self._entries) > MOST_USERS:
                self._entries.popitem(last=False)
        self._add(entries, request, by, user, SIGNED_IN)
        self._record(request, user, HTTPStatus.OK)

    def refused(self, request: Request, by: str, user: str) -> None:
        """Note that credentials were refused; a user is known by a certificate only."""
        self._add(self._refused, request, by, user, SIGN_IN_REFUSED)
        self._record(request, user, HTTPStatus.UNAUTHORIZED)

    def _record(self, request: Request, user: str, status: HTTPStatus) -> None:
        record = begin_record(self._audit, request)
        record.user, record.asked = User(user), AccessRequest(verb="post", path=request.path)
        record.end(status)

    def _add(self, entries: _Entries, request: Request, by: str, user: str, verb: str) -> None:
        with self._lock:
            if entries.bucket.reserve(self._clock.monotonic()) > 0:
                entries.left_out += 1
                return
            left_out, entries.left_out = entries.left_out, 0
        facts = [f"by: {by}", f"from: {request.address or 'this process'}"]
        if left_out:
            facts.append(f"left out before: {left_out}")
        self._note(access_entry(self._clock, user, "page", verb, "Page", "", facts=facts))
