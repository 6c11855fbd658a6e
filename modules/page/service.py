"""The HTTP service of the page: its files, sessions and shells; a `PageApi` answers its questions."""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from importlib import resources
from typing import Final, Protocol, TypeVar

import msgspec

from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.connections import Client
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, json, text
from beehive.http.router import Admitted, AdmittingService
from modules.cli.errors import KubectlError, StatusError
from modules.page.sessions import Sessions
from modules.page.shells import ShellDoor, Shells, ShellTarget, key_of

_TYPES: Final = {
    "css": "text/css", "js": "text/javascript", "mjs": "text/javascript", "html": "text/html", "svg": "image/svg+xml",
}  # fmt: skip
_DOCUMENT: Final = "page.html"
_SHELL: Final = "shell.html"
"""The document of a shell, which has xterm.js; its page is below `/page/shell`."""
_NONCE: Final = b"{nonce}"
_BEARER: Final = "Bearer "
_GET: Final = ("GET", "HEAD")

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The Content-Security-Policy: code and style of this server's files only, no markup from strings, no frames."""

HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-write=(self)"),
    ("Cache-Control", "no-store"),
)
_OWN: Final = ("same-origin", "none", "")
_POLICY_HEADER: Final = HEADERS[0][0]

HTTP: Final = "http"
HTTPS: Final = "https"
_MOST_BODY: Final = 16 * 1024
"""Bytes of the body with a token."""
_Body = TypeVar("_Body")


class Token(msgspec.Struct, frozen=True):
    """The body of `POST /page/v1/session`."""

    token: str = ""
    """A one-time token or, where users sign in, a bearer token; empty for the certificate of the connection."""


class SignInAnswer(msgspec.Struct, frozen=True):
    """The body of `POST /page/v1/sign-in`: an identity provider's answer, and what the tab has kept for it."""

    code: str = ""
    verifier: str = ""
    nonce: str = ""


class SessionKey(msgspec.Struct, frozen=True):
    """The answer to it."""

    key: str


class PageApi(Protocol):
    """The answers to the questions of a page: `FleetApi`, or `NodeApi` on a node."""

    def serve(self, request: Request, parts: Sequence[str]) -> Response:
        """Return the answer to a GET; `parts` are of its path, below `/page/v1`."""

    @property
    def door(self) -> ShellDoor:
        """The way to containers."""

    def close(self) -> None:
        """Release its resources."""


class Entrance(Protocol):
    """The decision who may look: `OwnerEntrance`, or the users of a secure port."""

    @property
    def hint(self) -> str:
        """The answer to a request without a session."""

    def enter(self, request: Request, token: str) -> str:
        """Return the key of a new session, "" for a token that opens none. Raise HttpStatusError for a refusal."""

    def sign_in(self) -> bytes:
        """Return the parameters of a browser's request to an identity provider, as JSON. Raise HttpStatusError without
        one.
        """

    def come_back(self, request: Request, answer: SignInAnswer, redirect_uri: str) -> str:
        """Return the key of a new session for a provider's answer; see `enter`."""

    def api(self, key: str, *, is_use: bool = True) -> PageApi | None:
        """Return the API for a session, None if it has ended; `is_use` prolongs the session."""

    def leave(self, key: str) -> None:
        """End a session."""


class OwnerEntrance:
    """The entrance for the owner of a command, by the one-time tokens that it prints (`Entrance`).

    Args:
        sessions: tokens and keys.
        api: answers the questions of the page.
        command: prints another address: `cloudcore page`.
    """

    def __init__(self, sessions: Sessions, api: PageApi, command: str) -> None:
        self._sessions = sessions
        self._api = api
        self.hint = f"`{command}` prints a new address; each can be opened once, within a minute"

    def enter(self, request: Request, token: str) -> str:  # noqa: ARG002 - of `Entrance`
        """See `Entrance`."""
        return self._sessions.exchange(token)

    def sign_in(self) -> bytes:
        """See `Entrance`."""
        raise no_provider()

    def come_back(self, request: Request, answer: SignInAnswer, redirect_uri: str) -> str:  # noqa: ARG002 - of `Entrance`
        """See `Entrance`."""
        raise no_provider()

    def api(self, key: str, *, is_use: bool = True) -> PageApi | None:
        """See `Entrance`."""
        return self._api if self._sessions.is_valid(key, is_use=is_use) else None

    def leave(self, key: str) -> None:
        """See `Entrance`."""
        self._sessions.end(key)


class Guard:
    """A guard that refuses requests that another site, or another name of this server, may have caused.

    `Host` must be one of the server's own names, compared as a whole, which DNS rebinding cannot fake; `Origin` and
    `Sec-Fetch-Site`, where they are sent, must be this server's. No credential is sent by a browser on its own: the
    key is a header.

    Args:
        hosts: the server's names with its port, as in `Host`: `127.0.0.1:8080`.
        scheme: `http` or `https`.
    """

    def __init__(self, hosts: Iterable[str], scheme: str) -> None:
        self._hosts = frozenset(hosts)
        self._scheme = scheme

    def check(self, request: Request) -> None:
        """Raise HttpStatusError with 421 or 403 for a request of another site."""
        hosts = [value for name, value in request.headers if name == "host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise HttpStatusError(421, "this is not the server's name: open the address that the command printed")
        origins = [value for name, value in request.headers if name == "origin"]
        if any(origin != f"{self._scheme}://{hosts[0]}" for origin in origins):
            raise HttpStatusError(403, "another site's page may ask nothing here")
        if request.header("sec-fetch-site") not in _OWN and not _is_visit(request):
            raise HttpStatusError(403, "another site's page may ask nothing here")
        if request.header("sec-fetch-site") == "none" and request.header("sec-fetch-mode") not in ("navigate", ""):
            raise HttpStatusError(403, "only a document is opened like this")

    def check_page(self, request: Request) -> None:
        """Raise HttpStatusError with 403 unless a script of the page itself has sent the request."""
        if not request.header("origin") or request.header("x-edgecore-page") != "1":
            raise HttpStatusError(403, "only the page itself may ask this")

    def check_shell(self, request: Request) -> None:
        """Raise HttpStatusError with 403 for a WebSocket that does not say that a script of this server opens it."""
        if not request.header("origin") or request.header("sec-fetch-site") not in ("same-origin", ""):
            raise HttpStatusError(403, "only the page itself may ask this")


def no_provider() -> HttpStatusError:
    """Return the answer where nobody signs in at an identity provider."""
    return HttpStatusError(404, "there is no identity provider to sign in at")


def _is_visit(request: Request) -> bool:
    """Return whether a browser opens a document of the page in a window, from a link or an identity provider: it says
    nothing, no other site can read or frame it, and its scripts ask for all else as this server's.
    """
    is_document = request.parts[:1] == ("page",) and request.parts[1:2] not in (("v1",), ("files",))
    asked = tuple(request.header(f"sec-fetch-{name}") for name in ("mode", "dest"))
    return request.method == "GET" and is_document and asked == ("navigate", "document")


def guarded(response: Response) -> Response:
    """Return the response with the headers that every answer has, and a policy of its own if it has one."""
    own = {name for name, _ in response.headers}
    return msgspec.structs.replace(
        response, headers=(*response.headers, *(each for each in HEADERS if each[0] not in own))
    )


class PageService(AdmittingService):
    """The service of the page (`HttpService`).

    Everything below `/page/v1` needs the key of a session, in a header that no other site can make a browser send; the
    files say nothing of the fleet, so they need none.

    Args:
        entrance: decides who may look.
        hosts: the server's own names with its port.
        clock: for shells.
        scheme: `http` or `https`.
    """

    def __init__(self, entrance: Entrance, hosts: Sequence[str], clock: Clock, scheme: str = HTTP) -> None:
        self._entrance = entrance
        self._shells = Shells(clock)
        self._guard = Guard(hosts, scheme)
        self._files = _files()

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`."""
        try:
            self._guard.check(request)
        except HttpStatusError as refusal:
            return _refusal(refusal)
        return Admitted(self._reply, _MOST_BODY, Client(request.address))

    def _reply(self, request: Request) -> Reply:
        """Return the response, an error's too, with the headers of the page; or a shell."""
        try:
            reply = self._serve(request)
            return guarded(reply) if isinstance(reply, Response) else reply
        except HttpStatusError as refusal:
            return _refusal(refusal)
        except StatusError as refusal:
            return guarded(text(refusal.code, f"{refusal.message}\n"))
        except (KubectlError, BeehiveError) as error:
            return guarded(text(HTTPStatus.BAD_GATEWAY, f"{error}\n"))

    def _serve(self, request: Request) -> Reply:
        match request.parts:
            case ("page", "v1", "shell", namespace, pod, container):
                return self._shell(request, ShellTarget(namespace, pod, container))
            case ("page", "shell", *_):
                _only(request, _GET)
                return self._shell_document()
            case ("page", "v1", *rest):
                return self._serve_api(request, tuple(rest))
            case ("page", "files", name):
                return self._file(request, name)
            case () | ("page", *_):
                _only(request, _GET)
                return self._files[_DOCUMENT][1]
        raise HttpStatusError(404, "nothing is served here; the page is at /page/")

    def _file(self, request: Request, name: str) -> Response:
        _only(request, _GET)
        found = self._files.get(name)
        if found is None or name in (_DOCUMENT, _SHELL):
            raise HttpStatusError(404, "the page has no such file")
        tag, response = found
        return Response(304, response.content_type, b"") if request.header("if-none-match") == tag else response

    def _shell_document(self) -> Response:
        """Return the document of a shell: xterm.js makes style elements, which a nonce allows here and nowhere else."""
        document, nonce = self._files[_SHELL][1], secrets.token_urlsafe(16)
        policy = POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
        body = document.body.replace(_NONCE, nonce.encode())
        return msgspec.structs.replace(document, body=body, headers=((_POLICY_HEADER, policy),))

    def _shell(self, request: Request, where: ShellTarget) -> Reply:
        """Return a shell. The guard has checked host and origin; no other site's script has the key."""
        self._guard.check_shell(request)
        key = key_of(request)
        if self._entrance.api(key) is None:
            raise HttpStatusError(401, "the session has ended", hint=self._entrance.hint)

        def door(*, is_use: bool) -> ShellDoor | None:
            api = self._entrance.api(key, is_use=is_use)
            return None if api is None else api.door

        return self._shells.reply(request, where, door)

    def _serve_api(self, request: Request, parts: tuple[str, ...]) -> Response:
        if parts == ("session",):
            return self._session(request)
        if parts == ("sign-in",):
            return self._sign_in(request)
        credentials = request.header("authorization")
        is_bearer = credentials.startswith(_BEARER)
        api = self._entrance.api(credentials.removeprefix(_BEARER)) if is_bearer else None
        if api is None:
            raise HttpStatusError(401, "the session has ended", hint=self._entrance.hint)
        _only(request, _GET)
        return api.serve(request, parts)

    def _session(self, request: Request) -> Response:
        """Exchange a one-time token for a key, or end a session."""
        self._guard.check_page(request)
        if request.method == "DELETE":
            self._entrance.leave(request.header("authorization").removeprefix(_BEARER))
            return text(HTTPStatus.OK, "signed out\n")
        _only(request, ("POST",))
        key = self._entrance.enter(request, _body_of(request, Token).token)
        if not key:
            raise HttpStatusError(401, "this opens no session: it is wrong, or was used", hint=self._entrance.hint)
        return json(msgspec.json.encode(SessionKey(key)))

    def _sign_in(self, request: Request) -> Response:
        """Return the parameters of a browser's request to an identity provider, or exchange the provider's answer for a
        key.
        """
        if request.method == "GET":
            return json(self._entrance.sign_in())
        self._guard.check_page(request)
        _only(request, ("POST",))
        answer = _body_of(request, SignInAnswer)
        key = self._entrance.come_back(request, answer, f"https://{request.header('host')}/page/sign-in")
        if not key:
            raise HttpStatusError(401, "cloudcore does not know the user of this identity", hint=self._entrance.hint)
        return json(msgspec.json.encode(SessionKey(key)))


def _refusal(error: HttpStatusError) -> Response:
    return guarded(text(error.status, f"{error}\n"))


def _body_of(request: Request, kind: type[_Body]) -> _Body:
    try:
        return decode_json(request.body, kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise HttpStatusError(400, "the body is not what is asked for") from error


def _files() -> dict[str, tuple[str, Response]]:
    """Return the files of the page, each with its entity tag; they are small and read once."""
    found = {}
    package = resources.files("modules.page")
    vendored = (each for library in package.joinpath("vendor").iterdir() for each in library.iterdir())
    for each in (*package.joinpath("files").iterdir(), *vendored):
        kind = _TYPES.get(each.name.rpartition(".")[2])
        if kind is not None:
            body = each.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[each.name] = (tag, Response(200, f"{kind}; charset=utf-8", body, headers=(("ETag", tag),)))
    return found


def _only(request: Request, methods: Sequence[str]) -> None:
    if request.method not in methods:
        raise HttpStatusError(405, f"only {', '.join(methods)} is served here")
