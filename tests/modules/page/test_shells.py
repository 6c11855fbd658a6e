"""Shells of the page: who may open one, what ends it, and what a hostile pod or node can do with it."""

import importlib.util
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from importlib import resources
from pathlib import Path
from queue import SimpleQueue
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, unix_serve
from websockets.typing import Subprotocol

from beehive.clock import RealClock
from beehive.http.errors import HttpStatusError
from modules.cli.rest import RestClient
from modules.cloud.cloudstream.relay import ClientSocket
from modules.page import frames, shells
from modules.page.api import About
from modules.page.frames import BrowserFrameError, FrameBounds
from modules.page.node_api import NodeApi
from modules.page.own_devices import OwnDevices
from modules.page.server import PageServer
from modules.page.sessions import IDLE_SECONDS, LONGEST_SECONDS
from modules.page.shells import ClosedDoor, Shells
from modules.processes.common.page_shell import USER_AGENT, SocketDoor
from modules.processes.common.pod_commands.client import NodeClient
from tests.modules.page.test_browser import ASK, FOUND, ONLY_COLOURS
from tests.support.browser import Browser, browser, why_none
from tests.support.failing import Failing, PlannedError
from tests.support.patience import PATIENCE

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
TARGET = "/page/v1/shell/default/web/app"
ENDED = json.dumps(
    {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "5"}]}}
)
Behaviour = Callable[[ServerConnection], None]


class LateClock(RealClock):
    """A clock that a test puts forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        """See `Clock`."""
        return super().monotonic() + self.ahead


class Page:
    """The page of a node whose server of containers is a stub that behaves as a test wants."""

    def __init__(self, directory: Path) -> None:
        self.asked: SimpleQueue[ServerConnection] = SimpleQueue()
        self.behave: Behaviour = self.hold
        self.let_go, self.ended = threading.Event(), threading.Event()
        path = directory / "edged.sock"
        protocols = [Subprotocol(V5), Subprotocol(V4)]
        self._node = unix_serve(self._serve, str(path), subprotocols=protocols, compression=None)
        self._thread = threading.Thread(target=self._node.serve_forever)
        self._thread.start()
        self.clock = LateClock()
        about = About("sock", "1", "edgecore", "n1", allowed=["exec"])
        self.api = NodeApi(RestClient(path), OwnDevices(list), about, self.clock, SocketDoor(NodeClient(path)))
        self.server = PageServer(self.api, self.clock, "edgecore")
        self.origin, _, self.token = self.server.address().partition("/page/#")
        self.key = self.new_key(self.token)

    def _serve(self, connection: ServerConnection) -> None:
        self.asked.put(connection)
        with suppress(ConnectionClosed):
            self.behave(connection)

    def hold(self, connection: ServerConnection) -> None:
        """Say nothing until the other side ends."""
        with suppress(ConnectionClosed):
            for _ in connection:
                pass
        self.ended.set()

    def new_key(self, token: str) -> str:
        """Return the key of a new session."""
        import urllib.request  # noqa: PLC0415 - of this function only

        headers = {"Origin": self.origin, "X-Edgecore-Page": "1", "Content-Type": "application/json"}
        body = json.dumps({"token": token}).encode()
        asked = urllib.request.Request(f"{self.origin}/page/v1/session", body, headers)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310
            return str(json.load(answer)["key"])

    def open(self, *, target: str = TARGET, key: str | None = None, **more: Any) -> ClientConnection:
        """Open a shell as a script of the page does."""
        offered = [V5, V4, shells.KEY_PROTOCOL + (self.key if key is None else key)]
        options = {"origin": self.origin, "compression": None, "open_timeout": PATIENCE} | more
        protocols = [Subprotocol(each) for each in options.pop("protocols", offered)]
        address, port = self.origin.removeprefix("http://").split(":")
        options["sock"] = socket.create_connection((address, int(port)), PATIENCE)
        host = options.pop("host", address)
        return connect(f"ws://{host}:{port}{target}", subprotocols=protocols, **options)

    def close(self) -> None:
        """End all."""
        self.let_go.set()
        self.server.stop()
        self._node.shutdown()
        self._thread.join(PATIENCE)
        self.clock.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """Start a page with a stub."""
    with closing(Page(tmp_path)) as made:
        yield made


def told(connection: ClientConnection) -> str:
    """Return why a shell was refused or ended: the message of its result, which may come after output."""
    message = b"\x01"
    while message[:1] == b"\x01":
        said = connection.recv(timeout=PATIENCE)
        assert isinstance(said, bytes)
        message = said
    assert message[:1] == b"\x03"
    return str(json.loads(message[1:])["message"])


def answer(connection: ServerConnection) -> None:
    """Write what is typed."""
    for message in connection:
        assert isinstance(message, bytes)
        connection.send(b"\x01" + message[1:])


def test_a_shell_is_the_request_of_kubectl_exec_without_the_browsers_credentials(page: Page) -> None:
    page.behave = answer
    with page.open(compression="deflate") as shell:
        asked = page.asked.get(timeout=PATIENCE).request
        assert asked is not None
        assert "Sec-WebSocket-Extensions" not in asked.headers, "what is compressed cannot be bounded"
        assert asked.path == "/exec/default/web/app?command=sh&input=1&output=1&tty=1"
        assert asked.headers["User-Agent"] == USER_AGENT
        assert asked.headers["Sec-WebSocket-Protocol"] == f"{V5}, {V4}"
        assert page.key not in str(asked.headers)
        assert "origin" not in asked.headers
        assert shell.subprotocol == V5
        shell.send(b"\0ls\n")
        assert shell.recv(timeout=PATIENCE) == b"\x01ls\n"
        large = b"\0" + bytes(300_000)
        shell.send(large)
        assert shell.recv(timeout=PATIENCE) == b"\x01" + large[1:]


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"origin": None}, 403),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"additional_headers": {"Sec-Fetch-Site": "cross-site"}}, 403),
    ({"additional_headers": {"Sec-Fetch-Site": "same-site"}}, 403),
    ({"additional_headers": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "websocket"}}, 403),
    ({"host": "evil.example"}, 421),
    ({"host": "127.0.0.1.evil.example"}, 421),
    ({"key": "wrong"}, 401),
    ({"key": ""}, 401),
    ({"protocols": [V5]}, 401),
    ({"protocols": [V5, "key.page.edgecore.a", "key.page.edgecore.b"]}, 401),
    ({"protocols": [V5, "KEY", "key.page.edgecore.b"]}, 401),
    ({"protocols": ["key.page.edgecore.a"]}, 400),
    ({"protocols": [V5], "additional_headers": {"Authorization": "Bearer KEY"}}, 401),
    ({"target": TARGET + "/more"}, 401),
]


@pytest.mark.parametrize(("wrong", "status"), REFUSED)
def test_another_site_and_a_visitor_without_a_session_open_nothing(
    page: Page, wrong: dict[str, Any], status: int
) -> None:
    if "additional_headers" in wrong and "Authorization" in wrong["additional_headers"]:
        wrong = wrong | {"additional_headers": {"Authorization": f"Bearer {page.key}"}}
    if "protocols" in wrong:
        named = {"KEY": shells.KEY_PROTOCOL + page.key}
        wrong = wrong | {"protocols": [named.get(each, each) for each in wrong["protocols"]]}
    with pytest.raises(InvalidStatus) as refusal:
        page.open(**wrong)
    assert refusal.value.response.status_code == status
    assert page.asked.empty()


def test_shells_are_bounded_by_number(page: Page) -> None:
    with ExitStack() as opened:
        another = page.new_key(page.server.address().partition("/page/#")[2])
        for number in range(shells.MOST_OF_USER):  # of two sessions
            opened.enter_context(page.open(key=another if number % 2 else None))
        with page.open() as more:
            assert told(more) == f"{shells.MOST_OF_USER} shells are open already; close one"
    page.behave = lambda connection: connection.send(b"\x01in")
    is_open = False
    while not is_open:  # the server notes the end of a shell a moment later
        with page.open() as again:
            is_open = again.recv(timeout=PATIENCE) == b"\x01in"


@pytest.mark.parametrize(
    ("taken", "user", "loser"),
    [
        ("a" * 7, "a", ""),
        ("a" * 8, "a", "8 shells are open already; close one"),
        ("a" * 8 + "b" * 8, "c", "a"),
        ("b" * 7 + "a" * 8 + "c", "c", "a"),
        ("abcdefgh" * 2, "x", "a"),
        ("abcdefgh" * 2, "a", "16 shells are open already, which other users share"),
        ("abcdefghijklmnop", "x", "16 shells are open already, which other users share"),
    ],
)
def test_the_places_of_shells_are_shared_by_user(taken: str, user: str, loser: str) -> None:
    places = shells.ShellPlaces()
    given = [places.acquire(each) for each in taken]
    try:
        given.append(places.acquire(user))
    except HttpStatusError as refusal:
        assert str(refusal) == loser
        loser = ""
    assert [each.user for each in given if each.is_given_away] == list(loser)
    for each in given:
        places.leave(each)
    assert not [each for each in map(places.acquire, "a" * 8 + "b" * 8) if each.is_given_away]


def test_a_shell_whose_place_another_user_gets_ends(page: Page) -> None:
    def says(connection: ServerConnection) -> None:
        page.let_go.wait(PATIENCE)
        connection.send(b"\x01late")
        page.hold(connection)

    page.behave = says
    with ExitStack() as opened:
        page.api.door.user = "ada"
        first = opened.enter_context(page.open())
        for user in "ada", "bob":
            page.api.door.user = user
            for _ in range(shells.MOST_OF_USER - (user == "ada")):
                opened.enter_context(page.open())
        page.api.door.user = "eve"
        opened.enter_context(page.open())
        page.clock.ahead = shells.CHECK_SECONDS
        page.let_go.set()
        assert told(first) == "another user opens a shell, and this was the oldest one of the user with the most"


READ_ONLY = "this page is read only (`edgecore page --allow exec` allows shells)"


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (shells.IDLE_SECONDS, "nothing was typed for 30 minutes"),
        (LONGEST_SECONDS, "the session has ended"),
        (shells.CHECK_SECONDS, READ_ONLY),
    ],
)
def test_a_shell_ends_without_input_and_with_its_session_and_right(page: Page, seconds: float, why: str) -> None:
    def says(connection: ServerConnection) -> None:
        connection.recv(timeout=PATIENCE)
        connection.send(b"\x01in")
        page.let_go.wait(PATIENCE)
        with suppress(ConnectionClosed):  # the shell may have ended before
            connection.send(b"\x01late")
        page.hold(connection)

    page.behave = says
    with page.open() as shell:
        shell.send(b"\0")
        assert shell.recv(timeout=PATIENCE) == b"\x01in"
        if why == READ_ONLY:
            page.api.door = ClosedDoor("edgecore page --allow exec")
            with page.open() as another:
                assert told(another) == why
        page.clock.ahead = seconds
        page.let_go.set()
        assert told(shell) == why
        assert page.ended.wait(PATIENCE)


def test_answers_of_a_terminal_are_no_input(page: Page) -> None:
    def ping(connection: ServerConnection) -> None:
        connection.recv(timeout=PATIENCE)
        page.clock.ahead = shells.IDLE_SECONDS - 100
        assert connection.ping().wait(PATIENCE)
        page.clock.ahead = shells.IDLE_SECONDS + 100
        connection.send(b"\x01late")
        page.hold(connection)

    page.behave = ping
    with page.open() as shell:
        shell.send(b"\0")
        assert told(shell) == "nothing was typed for 30 minutes"


def test_typing_is_a_use_of_the_session(page: Page) -> None:
    page.behave = answer
    with page.open() as shell:
        for _ in range(4):
            page.clock.ahead += shells.IDLE_SECONDS - 100
            shell.send(b"\0ls")
            assert shell.recv(timeout=PATIENCE) == b"\x01ls"
    assert page.clock.ahead > IDLE_SECONDS


def test_a_look_at_the_session_is_no_use_of_it() -> None:
    """Only what was typed since the one before is."""
    uses: list[bool] = []

    def ended(*, is_use: bool) -> None:
        uses.append(is_use)

    for typed in (False, True):
        place = shells.ShellPlace("ada")
        assert (
            shells._end_of(ended, shells.ShellTarget("shop", "a", "c"), place, typed=typed) == "the session has ended"
        )
    assert uses == [False, True]


class Typist(ClientSocket):
    """A browser whose user types at drawn times, and reads; the node echoes at once.

    Args:
        connection: is not used.
        draw: of the pauses.
        clock: stands for the times.
    """

    def __init__(self, connection: socket.socket, draw: Random, clock: LateClock) -> None:
        super().__init__(connection)
        self.left, self.noted, self.typed, self.echoes = 30, clock.monotonic(), 0.0, 0
        self._draw, self._clock = draw, clock

    def read(self, most: int) -> bytes | None:
        """See `ClientSocket`."""
        self.left -= 1
        self._clock.ahead += self._draw.choice([0, 1, shells.CHECK_SECONDS, 1000])
        self.typed = self._clock.monotonic()
        return Frame(Opcode.BINARY, b"\0l").serialize(mask=True) if self.left else b""

    def write(self, data: bytes = b"") -> bool:
        """Demand that the use of the session is noted that this answers."""
        if data:
            self.echoes += 1
            assert self.noted > self.typed - shells.CHECK_SECONDS
        return bool(data)

    def end_of(self, *, typed: bool) -> str:
        """Note the use of the session."""
        if typed:
            self.noted = self._clock.monotonic()
        return ""


class Echo(ClientSocket):
    """A node that answers what is typed at once."""

    _said = b""

    def read(self, most: int) -> bytes | None:
        """See `ClientSocket`."""
        said, self._said = self._said, b""
        return said or None

    def write(self, data: bytes = b"") -> bool:
        """See `ClientSocket`."""
        if data:
            self._said += Frame(Opcode.BINARY, b"\x01l").serialize(mask=False)
        return bool(data)


@pytest.mark.parametrize("seed", range(5))
def test_what_answers_an_input_comes_after_the_use_is_noted(seed: int) -> None:
    """The session had ended for a user who had typed, if the machine was slow between the answer and the check."""
    clock = LateClock()
    one, other = socket.socketpair()
    with closing(clock), one, other:
        typist = Typist(one, Random(seed), clock)  # noqa: S311 - reproducible on purpose
        talk = shells._Talk(typist, Echo(other), clock)
        assert talk.run(b"", b"", lambda typed: typist.end_of(typed=typed)) == ""
    assert typist.echoes


class Reader(Typist):
    """A browser whose user only reads."""

    def read(self, most: int) -> bytes | None:
        """See `ClientSocket`."""
        self.left -= 1
        self._clock.ahead += shells.CHECK_SECONDS
        return None if self.left else b""

    def write(self, data: bytes = b"") -> bool:
        """See `ClientSocket`."""
        return bool(data)


class Tail(ClientSocket):
    """A node that says something all the time."""

    def read(self, most: int) -> bytes | None:
        """See `ClientSocket`."""
        return Frame(Opcode.BINARY, b"\x01l").serialize(mask=False)


def test_output_is_no_use_of_the_session() -> None:
    """`tail -f` would keep the session of a user who has left."""
    uses: list[bool] = []

    def end_of(typed: bool) -> str:
        uses.append(typed)
        return ""

    clock = LateClock()
    one, other = socket.socketpair()
    with closing(clock), one, other:
        talk = shells._Talk(Reader(one, Random(0), clock), Tail(other), clock)  # noqa: S311 - of no use
        assert talk.run(b"", b"", end_of) == ""
    assert len(uses) > 20
    assert not any(uses)


def test_closing_the_browsers_end_ends_the_nodes(page: Page) -> None:
    with page.open():
        assert not page.ended.is_set()
    assert page.ended.wait(PATIENCE)


def test_a_server_that_stops_ends_its_shells(page: Page) -> None:
    with page.open() as shell:
        page.server.stop()
        with pytest.raises(ConnectionClosed):
            shell.recv(timeout=PATIENCE)
    assert page.ended.wait(PATIENCE)


def test_a_node_that_sends_too_much_in_one_message_loses_its_browser(page: Page) -> None:
    page.behave = lambda connection: connection.send(bytes(frames.MOST_BYTES + 1))
    with page.open(max_size=None) as shell, pytest.raises(ConnectionClosed):
        shell.recv(timeout=PATIENCE)


def test_a_refusal_of_the_node_is_reported_in_the_terminal(tmp_path: Path) -> None:
    """However often it is tried: what is refused takes no place."""
    page, path = Page(tmp_path), tmp_path / "edged.sock"
    try:
        path.rename(tmp_path / "gone.sock")
        for _ in range(shells.MOST_OF_USER + 1):
            with page.open() as shell:
                assert "cannot reach edgecore" in told(shell)
    finally:
        page.close()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("101 X\r\nSec-WebSocket-Protocol: other\r\n\r\n", "is no stream for a browser"),
        (f"101 X\r\nSec-WebSocket-Protocol: {V5}\r\nSec-WebSocket-Extensions: x\r\n\r\n", "is no stream for a browser"),
        ("403 X\r\nContent-Length: 1000000000\r\n\r\n" + "x" * 9000, "^x{1000}$"),
        ("403 X\r\nContent-Length: 4\r\n\r\nlate", "late"),
        ("", "there is no answer"),
    ],
)
def test_an_answer_that_is_no_stream_is_refused_within_a_time(said: str, why: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(f"HTTP/1.1 {said.replace('101 X', '101 X' + UPGRADE)}".encode() if said else b"")
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(HttpStatusError, match=why) as refusal:
            shells._answered(ours, shells.ShellPlace("ada"))
        assert (refusal.value.status, ours.gettimeout()) == (502, 40.0)


UPGRADE = "\r\nConnection: Upgrade\r\nUpgrade: websocket"


class Side:
    """A side of a shell that has a descriptor, and bytes that it has not taken if a test says so."""

    def __init__(self, number: int, *, writes: bool = False) -> None:
        self.number, self.writes, self.written, self.has_ended = number, writes, b"", False

    def fileno(self) -> int:
        return self.number

    def read(self, _most: int) -> bytes:
        """Say that it has ended."""
        return b""

    def write(self, data: bytes = b"") -> int:
        self.written += data
        return len(data)

    def end(self, _clock: RealClock) -> None:
        self.has_ended = True


def talk(browser: Side, node: Side) -> shells._Talk:
    return shells._Talk(cast("ClientSocket", browser), cast("ClientSocket", node), cast("RealClock", None))


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass."""
    monkeypatch.setattr(shells._Talk, "__init__", _init)


def _init(made: shells._Talk, browser: ClientSocket, node: ClientSocket, clock: RealClock) -> None:
    made._browser, made._node, made._clock, made._bounds = browser, node, clock, FrameBounds()


@pytest.mark.usefixtures("standing")
@pytest.mark.parametrize(("browser", "node"), [(False, False), (True, False), (False, True)])
def test_a_side_is_read_only_while_the_other_takes_what_was_read(
    monkeypatch: pytest.MonkeyPatch, *, browser: bool, node: bool
) -> None:
    """Otherwise a pod whose browser is slow would let the server look at it without a rest."""
    found, waits = dict[int, int](), list[float]()
    poll = SimpleNamespace(register=lambda side, events: found.update({side.number: events}), poll=waits.append)
    poll_in, poll_out = 1, 4
    monkeypatch.setattr(shells, "select", SimpleNamespace(poll=lambda: poll, POLLIN=poll_in, POLLOUT=poll_out))
    talk(Side(1, writes=browser), Side(2, writes=node))._wait(5.0)
    wanted = {1: poll_out * browser + poll_in * (not node), 2: poll_out * node + poll_in * (not browser)}
    assert (found, waits) == ({number: events for number, events in wanted.items() if events}, [5000.0])


def test_a_browser_that_takes_nothing_keeps_no_server_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a reason fill its terminal, whoever gives it."""
    handshake: Any = SimpleNamespace(header=lambda _: "key", headers=(("sec-websocket-protocol", V5),))
    refuse = Failing(0, HttpStatusError(403, "x" * 9000)).call(print)
    opened = SimpleNamespace(protocol=V5, connection=None, place=None)
    calls = list[object]()

    def send(data: bytes) -> None:
        calls.append(len(data) < 1000)
        raise PlannedError

    client: Any = SimpleNamespace(settimeout=calls.append, sendall=send)
    for found in (refuse, lambda *_: opened):
        monkeypatch.setattr(Shells, "_opened", lambda *_, found=found: found())
        reply = Shells(cast("RealClock", None)).reply(
            handshake, shells.ShellTarget("shop", "web", "app"), cast("Any", None)
        )
        with pytest.raises(PlannedError):
            reply.carry_on(client)
    assert calls == [10.0, True] * 2
    assert len(shells._failure("x" * 9000)) < 700


@pytest.mark.usefixtures("standing")
def test_the_end_of_a_shell_is_told_between_two_messages_only() -> None:
    """In one, a terminal would take the reason for a part of it."""
    for said, is_told in ((b"", True), (frame(0x02, 3), False), (frame(0x02, 3) + b"abc", False)):
        browser = Side(1)
        made = talk(browser, Side(2))
        made._bounds.check(said)
        assert made._ended("because") == "because"
        assert (b"because" in browser.written, browser.has_ended) == (is_told, is_told)
    browser = Side(1)
    assert talk(browser, Side(2))._give_output() is None
    assert browser.has_ended, "what it was told last is to arrive"


def frame(first: int, length: int, *, masked: bool = False) -> bytes:
    """Return the head of a frame."""
    mask = 0x80 if masked else 0
    if length < 126:
        return bytes([first, mask | length])
    return (
        bytes([first, mask | 127]) + length.to_bytes(8)
        if length > 65_535
        else bytes([first, mask | 126]) + length.to_bytes(2)
    )


MOST = frames.MOST_BYTES
GOOD = [
    frame(0x82, 5) + bytes(5), frame(0x82, 300) + bytes(300), frame(0x82, 70_000) + bytes(70_000), frame(0x82, 0),
    frame(0x02, 3) + bytes(3) + frame(0x89, 2) + b"hi" + frame(0x80, 3) + bytes(3), frame(0x88, 2) + b"\x03\xe8",
]  # fmt: skip


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_frames_of_any_length_pass_in_any_pieces(step: int) -> None:
    bounds = FrameBounds()
    for whole in GOOD:
        for at in range(0, len(whole), step):
            bounds.check(whole[at : at + step])
            assert bounds.is_between == (at + step >= len(whole))
    bounds.check(frame(0x82, MOST))


@pytest.mark.parametrize(
    "wrong",
    [
        frame(0x82, MOST + 1), frame(0x82, 1 << 62), frame(0x02, MOST) + bytes(MOST) + frame(0x80, 1),
        frame(0xC2, 5), frame(0x82, 5, masked=True), frame(0x89, 126), frame(0x09, 1), frame(0x82, (1 << 64) - 1),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("standing")
def test_frames_that_are_too_long_masked_or_compressed_do_not(wrong: bytes) -> None:
    browser = Side(1)
    made = talk(browser, Side(2))
    with pytest.raises(BrowserFrameError):
        made._to_browser(wrong)
    assert not made._bounds.is_between
    assert not browser.written


HOSTILE = (
    "\x1b]0;evil title\x07\x1b]2;evil\x1b\\\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil.example\x07link\x1b]8;;\x07"
    "\x1b]8;;javascript:window.broken=1\x07script\x1b]8;;\x07\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[6n\x1b[?6n\x1b[18t\x1b[14t"
    '\x1b[21t\x1b[20h\x1b[4$p\x1b[?1$p\x1bP$qm\x1b\\\x1bP$q"p\x1b\\\x05\x1b]4;1;?\x07\x1b]10;?\x07\x1b]11;?\x07\x1b]12;?\x07'
    "\x1b[?1004h\x1b[>q\x1b]50;?\x07\x1bP+q544e\x1b\\\x1bZ\x1b[38;2;1;2;3mcolour\x1b[0m"
    "<img src=x onerror=window.broken=1>\u202e"
)
"""Titles, the clipboard, links, every report that a terminal may be asked for, and markup."""


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_a_hostile_pod_gets_a_screen_and_nothing_else(page: Page) -> None:
    heard: list[bytes] = []

    def hostile(connection: ServerConnection) -> None:
        connection.send(b"\x01" + HOSTILE.encode())
        connection.send(b"\x01\r\nready\r\n")
        for message in connection:
            assert isinstance(message, bytes)
            heard.append(message)
            if message == b"\0x":
                connection.send(b"\x01seen\r\n")
            if message == b"\0q":
                connection.send(b"\x03" + ENDED.encode())
                return

    page.behave = hostile
    with browser(1280, 900) as window:
        window.open(page.server.address())
        window.wait("Boolean(sessionStorage.getItem('edgecore-page-key'))")
        window.console()
        window.open(f"{page.origin}/page/shell/default/web/app")
        rows = "document.querySelector('.xterm-rows').textContent"
        window.wait(opened(f"Boolean(document.querySelector('.xterm-rows')) && {rows}.includes('ready')"))
        assert window.run("return document.querySelector('.xterm-rows [style*=color]').textContent") == "colour"
        assert window.run(f"return {rows}.includes('<img src=x') && {rows}.includes('colour')")
        window.keys("x", "textarea")
        window.wait(f"{rows}.includes('seen')")
        assert [each for each in heard if each[:1] == b"\0"] == [b"\0x"], "a pod can type nothing"
        sizes = [msgspec.json.decode(each[1:]) for each in heard if each[:1] == b"\x04"]
        assert sizes and 100 < sizes[-1]["Width"] < 200
        assert window.run("return document.title") == "sh in default/web · edgecore"
        assert window.run(
            "return [window.broken === undefined, document.querySelectorAll('img, .xterm a').length]"
        ) == [True, 0]
        paste(window, "one\ntwo\n\x1b[201~", "false")
        paste(window, "one \x1b[201~", "false")
        window.keys("\ue008\ue036", "textarea")  # Shift+F6
        window.wait("document.activeElement.id === 'back'")
        window.resize(700, 600)
        window.wait(f"document.querySelectorAll('.xterm-rows > div').length < {sizes[-1]['Height']}")
        window.keys("q", "textarea")
        window.wait("document.getElementById('state').textContent === 'The shell has ended with exit code 5.'")
        window.wait("!document.getElementById('again').hidden")
        typed = [each for each in heard if each[:1] == b"\0"]
        assert typed == [b"\0x", b"\0one [201~", b"\0q"]
        assert [each for each in window.console() if "status of 426" not in each] == []
        assert all(url.startswith((page.origin, page.origin.replace("http", "ws"))) for url in window.requests())

        look_for_barriers(window)


def look_for_barriers(window: Browser) -> None:
    """Let axe look at the shell's document, light and dark, narrow and wide."""
    if importlib.util.find_spec("axe_core_python") is None:
        return
    window.run(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = list[str]()
    for width in (390, 1280):
        window.resize(width, 900)
        for theme, rules in (("light", {}), ("dark", ONLY_COLOURS)):
            window.run("document.documentElement.style.colorScheme = arguments[0];", theme)
            window.run(ASK, rules)
            window.wait("Boolean(window.found)")
            found += [f"{theme} {width}: {each}" for each in window.run(FOUND)]
        assert window.run("return document.documentElement.scrollWidth <= innerWidth"), width
    assert not found, "\n".join(found)


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_another_sites_page_opens_no_shell_even_with_the_key(page: Page) -> None:
    url = page.origin.replace("http", "ws") + TARGET
    with browser() as window:
        window.open("data:text/html,<title>evil</title>")
        window.run(
            "window.ended = ''; const socket = new WebSocket(...arguments);"
            "socket.onopen = () => { window.ended = 'open'; }; socket.onerror = () => { window.ended = 'refused'; };",
            url, [V5, shells.KEY_PROTOCOL + page.key],
        )  # fmt: skip
        window.wait("Boolean(window.ended)")
        assert window.run("return window.ended") == "refused"
        assert page.asked.empty()


TEXTS = r"""
const {ending, pasted, Output} = window.parts, said = [], half = new Uint8Array(600000);
const output = new Output({write: (data, done) => said.push([data, done])});
output.take(half); output.take(half); output.take(new Uint8Array(5)); output.take(half);
const before = said.length;
while (said.length && said[0][1]) said.shift()[1]();
const pastes = ["a\tb\r\n\x1b[201~\x7f\x00\x85", "x".repeat(65537)].map(pasted);
return [arguments[0].map(ending), pastes, before, said.map((each) => each[0])];
"""
SHELL_ENDED, NO_SHELL = "The shell has ended with exit code", "There is no shell:"
ENDINGS = [
    ('{"status": "Success"}', f"{SHELL_ENDED} 0."),
    (ENDED, f"{SHELL_ENDED} 5."),
    ("not JSON", "The shell has ended: its result cannot be read."),
    ("null", f"{NO_SHELL} the command could not be run."),
    ('{"status": {"a": 1}, "message": ["<b>"], "details": 5}', f"{NO_SHELL} the command could not be run."),
    ('{"status": "Failure", "message": "no sh \\u202e"}', f"{NO_SHELL} no sh \\u202e."),
    (ENDED.replace('"5"', '"<b>5"'), f"{NO_SHELL} the command could not be run."),
]


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_results_pasted_texts_and_floods_are_bounded_texts(page: Page) -> None:
    with browser() as window:
        window.open(f"{page.origin}/page/")
        window.run("import('/page/files/terminal.js').then((found) => { window.parts = found; });")
        window.wait("Boolean(window.parts)")
        endings, pastes, written, last = window.run(TEXTS, [text for text, _ in ENDINGS])
    assert endings == [words for _, words in ENDINGS]
    assert pastes == ["a\tb\r\n[201~", None]
    assert (written, last) == (2, ["\r\n[1200000 bytes that came too fast are left out]\r\n"])


def opened(expression: str) -> str:
    """Return an expression that opens the shell again where a change of this machine's network has broken it off."""
    return (
        f"(() => {{ if ({expression}) return true; const again = document.getElementById('again');"
        "if (again && !again.hidden) again.click(); return false; })()"
    )


def paste(window: Browser, text: str, answer: str) -> None:
    """Paste a text, and answer the question about its lines."""
    window.run(
        f"window.confirm = () => {answer}; const data = new DataTransfer(); data.setData('text/plain', arguments[0]);"
        "document.querySelector('textarea').dispatchEvent("
        "new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));",
        text,
    )


@pytest.mark.parametrize("is_open", [False, True])
def test_a_shell_that_cannot_be_opened_keeps_no_place(monkeypatch: pytest.MonkeyPatch, *, is_open: bool) -> None:
    """Its user could open no others, and the node's end would stay open."""
    places, closed = list[str](), list[str]()
    owner = SimpleNamespace(_places=SimpleNamespace(acquire=str, leave=places.append))
    opens = Failing(None if is_open else 0).call(lambda *_: SimpleNamespace(close=lambda: closed.append("node's")))
    way = SimpleNamespace(user="alice", check=lambda _: None, open=opens)
    monkeypatch.setattr(shells, "_answered", Failing(0).call(print))
    monkeypatch.setattr(shells, "protocols_of", lambda _: ())
    with pytest.raises(PlannedError):
        Shells._opened(cast("Any", owner), cast("Any", SimpleNamespace(headers=())), cast("Any", None), lambda **_: way)
    assert (places, closed) == (["alice"], ["node's"] * is_open)
    way.check = Failing(0).call(print)
    with pytest.raises(PlannedError):
        Shells._opened(cast("Any", owner), cast("Any", SimpleNamespace(headers=())), cast("Any", None), lambda **_: way)
    assert (len(places), len(closed)) == (1, is_open), "nothing is asked of the node without the right"
