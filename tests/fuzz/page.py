"""Target of the page's server: requests of whoever reaches its port, some with a session."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from beehive.http.errors import HttpError, HttpStatusError
from beehive.http.responses import Response
from modules.page.service import HEADERS
from tests.beehive.http.requests import parse
from tests.fuzz.target import Target, must
from tests.modules.page.test_service import HOST, ORIGIN, Page

_PATHS: Final = (
    "me", "changes?since=0&view=1", "nodes/n1", "pods?q=is:away", "rollouts", "devices/a/b", "journal?q=node:n1",
    "explain/default/web", "log/default/web/c", "history/default/hall/t", "shell/default/web/c", "session", "sign-in",
)  # fmt: skip
_MOST_BODY: Final = 4096


@cache
def _page() -> tuple[Page, str]:
    """A server without a cloudcore behind it, and the key of a session."""
    made = Page(Path("/nonexistent"))
    return made, made.key()


def _seeds() -> Sequence[bytes]:
    _, key = _page()
    common = f"Host: {HOST}\r\nOrigin: {ORIGIN}\r\nX-Edgecore-Page: 1\r\nSec-Fetch-Site: same-origin\r\n"
    of_session = f"{common}Authorization: Bearer {key}\r\n"
    found = [f"GET /page/v1/{path} HTTP/1.1\r\n{of_session}\r\n" for path in _PATHS]
    found += [f"GET /page/{path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n" for path in ("", "files/main.js", "nodes/n1")]
    found.append(f"DELETE /page/v1/session HTTP/1.1\r\n{common}Authorization: Bearer {'A' * 43}\r\n\r\n")
    found.append(f'POST /page/v1/session HTTP/1.1\r\n{common}Content-Length: 13\r\n\r\n{{"token":"no"}}'[:-1])
    found.append(
        f"GET /page/v1/shell/a/b/c HTTP/1.1\r\n{common}Connection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Protocol: v5.channel.k8s.io, key.page.edgecore.{key}\r\n\r\n"
    )
    return [each.encode() for each in found]


def _check(data: bytes, _random: Random) -> None:
    page, key = _page()
    try:
        request = parse(data, _MOST_BODY)
    except (HttpError, HttpStatusError):
        return
    reply = page.service.serve(request)
    must(isinstance(reply, Response), "nothing is opened")
    assert isinstance(reply, Response)
    must(200 <= reply.status < 600 and reply.status != 500, "nothing fails")
    must(not reply.location, "nothing leads elsewhere")
    must(set(HEADERS) <= set(reply.headers), "every answer has the headers of the page")
    must(not any(name.lower() == "set-cookie" for name, _ in reply.headers), "there is no cookie")
    if reply.status < 400:
        must(request.header("host") in (HOST, "localhost:8080"), "the host is the server's own")
        is_file = reply.content_type.partition(";")[0] != "application/json"
        must(is_file or key in str(request.headers) or request.method == "DELETE", "facts are for sessions")


TARGETS: Final = (Target("page", _seeds, _check, 0.5),)
