"""The tunnel server and the stream server over real sockets and TLS, with a node and an API server driven by hand."""

import hashlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Request

from beehive.clock import RealClock
from beehive.http.request import Request as HttpRequest
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.cloudstream import opening
from modules.cloud.cloudstream.stream_service import StreamService, check_path
from modules.cloud.cloudstream.tunnel_server import SILENT_SECONDS, TunnelServer, refuse_tunnel
from modules.streams.credit import FIRST_CREDIT
from modules.streams.frames import Frame, FrameType, credit_frame, credit_of
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudstream.edges import edge_at, spdy
from tests.modules.cloud.cloudstream.sites import Site, read_all, read_until
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE

UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
EXEC = "POST /exec/n1/web/main?command=sh&output=1"


class GoingClock(StandingClock):
    """The machine's clock."""

    def monotonic(self) -> float:
        return RealClock.monotonic()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = StandingClock()
    site = Site(tmp_path, clock)
    yield site
    site.close()
    clock.close()


def test_a_node_has_the_name_of_its_certificate(site: Site) -> None:
    """KubeEdge believes the header: with any node's certificate a client takes over the streams of all others."""
    with site.edge("n1") as edge:
        with pytest.raises(InvalidStatus) as refused, site.edge("n1", certificate="n2"):
            pass
        assert refused.value.response.status_code == 403
        assert b"the certificate is that of n2" in (refused.value.response.body or b"")
        with pytest.raises((OSError, WebSocketException)), edge_at(site.server.address[1], "n1", site.of_nobody()):
            pass
        with site.client("GET /containerLogs/n1/web/main") as client:
            frame, _ = edge.opened()
            edge.end(frame.connection)
            assert read_until(client, b"0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_page_of_a_browser_opens_no_tunnel(site: Site) -> None:
    """It has the certificate of its machine's user."""
    with pytest.raises(InvalidStatus) as refused, site.edge("n1", Origin="https://page.example"):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(("said", "most"), [("8", 8), ("0", 512), ("-1", 512), ("99999", 512), ("x", 512), ("", 512)])
def test_a_node_says_how_many_streams_it_serves(site: Site, said: str, most: int) -> None:
    """KubeEdge's nodes say nothing."""
    with site.edge("n1", SessionStreamLimit=said):
        assert site.server._tunnels._by_node["n1"]._shares.most == most


def test_the_api_server_may_have_all_streams_of_a_node(site: Site) -> None:
    """It asks for all users of the cluster."""
    with site.edge("n1", SessionStreamLimit="4") as edge, ExitStack() as clients:
        for _ in range(4):
            clients.enter_context(site.client("GET /containerLogs/n1/web/main"))
            edge.opened()
        refused = clients.enter_context(site.client("GET /containerLogs/n1/web/main"))
        assert read_until(refused, b"\r\n\r\n").startswith(b"HTTP/1.1 429 ")


def test_a_tunnel_that_has_ended_leaves_nothing_of_its_offer(site: Site) -> None:
    """Nodes behind a bad network connect again and again."""
    for _ in range(3):
        with site.edge("n1"):
            assert site.server._offers
        wait_until(lambda: not site.server._offers, "the offer is forgotten")


def test_a_node_that_connects_again_needs_no_further_place() -> None:
    """A tunnel that its network has lost may count still."""
    requests = [Request("/v1/kubeedge/connect", Headers(SessionHostNameOverride=name)) for name in ("n1", "n2")]
    refusals = [refuse_tunnel(each, None, {"n1"}, 1, tls=False) for each in requests]
    assert [each.status if each else 101 for each in refusals] == [101, 503]


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        (("exec", "ns", "pod", "main"), 0),
        (("exec", "ns", "pod", "uid", "main"), 0),
        (("exec", "ns", "pod"), 404),
        (("exec", "ns", "pod", "uid", "main", "more"), 404),
        (("portForward", "ns", "pod", "uid", "more"), 404),
        (("run", "ns", "pod", "main"), 404),
    ],
)
def test_a_path_has_the_parts_of_a_kubelets(parts: tuple[str, ...], code: int) -> None:
    asked = HttpRequest(method="POST", target="/", parts=parts)
    if not code:
        check_path(asked)
        return
    with pytest.raises(ApiStatusError) as refused:
        check_path(asked)
    assert refused.value.code == code


def test_only_the_api_server_is_served(site: Site) -> None:
    """KubeEdge serves everybody who reaches the port: a command as root in any container of any node."""
    site.client_context = site.of_user("somebody")
    with site.client(EXEC, **UPGRADE) as client:
        assert b"403" in read_all(client)[0].split(b"\r\n")[0]
    site.client_context = site.of_nobody()
    with pytest.raises((ssl.SSLError, ConnectionError)), site.client(EXEC, **UPGRADE) as client:
        client.recv(1)


@pytest.mark.parametrize(
    ("request_line", "status", "text"),
    [
        ("GET /containerLogs/n2/web/main", 503, b"node n2 (the node has no stream tunnel"),
        ("GET /containerLogs/n1/none/main", 404, b'pods "none" not found'),
        ("GET /configz", 404, b"no such path"),
        ("POST /containerLogs/n1/web/main", 405, b"GET"),
        ("POST /exec/n1/web/main?command=ls", 400, b"Upgrade request required"),
        ("GET /metrics/resource", 502, b"127.0.0.1"),
    ],
    ids=["no-tunnel", "no-pod", "no-path", "no-method", "no-upgrade", "no-node-at-the-address"],
)
def test_a_refusal_has_its_reason(site: Site, request_line: str, status: int, text: bytes) -> None:
    with site.client(request_line) as client:
        answer, _ = read_all(client)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert text in answer


@pytest.mark.parametrize("name", ["n1", "n1:10250", "https:n1:10250"])
def test_the_proxy_of_a_node_names_it(site: Site, name: str) -> None:
    with site.edge("n1") as edge, site.client("GET /pods", **{"X-Forwarded-Uri": f"/api/v1/nodes/{name}/proxy/pods"}):
        frame, request = edge.opened()
        assert request.target == "/pods"
        edge.end(frame.connection)


def test_a_log_ends_when_the_container_does_and_breaks_off_when_the_tunnel_does(site: Site) -> None:
    """KubeEdge ends both alike, so that kubectl takes half of a log for all of it."""
    with site.edge("n1") as edge:
        with site.client("GET /containerLogs/n1/web/main?follow=true", Authorization="Bearer abc") as client:
            frame, request = edge.opened()
            assert request.target == "/containerLogs/n1/web/main?follow=true"
            assert b"Bearer" not in frame.data
            edge.send(frame.connection, b"one\n")
            assert read_until(client, b"one\n\r\n")
            edge.send(frame.connection, b"two\n")
            edge.end(frame.connection)
            assert read_until(client, b"0\r\n\r\n") == b"4\r\ntwo\n\r\n0\r\n\r\n"
        with site.client("GET /containerLogs/n1/web/main?follow=true") as client:
            frame, _ = edge.opened()
            edge.send(frame.connection, b"half")
            assert read_until(client, b"half\r\n")
            edge.connection.close()
            assert read_all(client)[0] == b""  # without the last chunk


@pytest.mark.parametrize(("origin", "status"), [("https://127.0.0.1:10351", 101), ("https://page.example", 403)])
def test_a_page_of_a_browser_runs_no_command(site: Site, origin: str, status: int) -> None:
    """Its reader may have a certificate; libraries of websockets name the server itself as the origin."""
    with site.edge("n1") as edge, site.client(EXEC, **UPGRADE, Origin=origin) as client:
        if status == 101:
            edge.send(edge.opened()[0].connection, SWITCHED)
        assert client.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("text", "reason", "status", "told"),
    [
        (b"", b"the kubelet's server does not answer", 502, b"node n1: the kubelet's server does not answer\n"),
        (b"no container x", b"the node answers with status 404", 404, b"no container x\n"),
        (b"no container x", b"", 200, b"no container x"),
    ],
    ids=["no-answer", "refused", "kubeedge"],
)
def test_an_error_of_the_nodes_server_is_one_here(
    site: Site, text: bytes, reason: bytes, status: int, told: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reason that our node gives for a stream's end, here however slow it is; KubeEdge's gives none, and its
    text passes for the log.
    """
    for name in ("FIRST_SECONDS", "ERROR_SECONDS"):
        monkeypatch.setattr(opening, name, PATIENCE)
    with site.edge("n1") as edge, site.client("GET /containerLogs/n1/web/main") as client:
        frame, _ = edge.opened()
        if text:
            edge.send(frame.connection, text)
        edge.end(frame.connection, reason)
        answer, _ = read_all(client)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert told in answer


@pytest.mark.parametrize("request_line", ["GET /containerLogs/n1/web/main", EXEC])
def test_a_stream_that_the_node_never_answers_ends_with_words(
    tmp_path: Path, request_line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the machine's clock. A Go edgecore whose own server does not listen logs that, and sends nothing."""
    monkeypatch.setattr(opening, "ANSWER_SECONDS", 0.2)
    headers = UPGRADE if request_line == EXEC else {}
    with (
        closing(GoingClock()) as clock,
        closing(Site(tmp_path, clock)) as site,
        site.edge("n1") as edge,
        site.client(request_line, **headers) as client,
    ):
        frame, _ = edge.opened()
        answer, _ = read_all(client)
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert b"node n1: its tunnel is open, but no answer has begun within " in answer
        assert edge.receive() == Frame(frame.connection, FrameType.REMOVE)


def test_a_client_of_a_log_goes(site: Site) -> None:
    """The node gets one message."""
    with site.edge("n1") as edge:
        with site.client("GET /containerLogs/n1/web/main?follow=true") as client:
            frame, _ = edge.opened()
            edge.send(frame.connection, b"one\n")
            assert read_until(client, b"one\n\r\n")
        assert edge.receive() == Frame(frame.connection, FrameType.REMOVE)
        wait_until(lambda: site.tunnels.streams() == 0, "the stream to be forgotten")


def test_a_command_passes_bytes_both_ways_until_it_ends(site: Site) -> None:
    """The response has the headers of the node's that belong to the protocol."""
    with site.edge("n1") as edge, site.client(EXEC, **UPGRADE) as client:
        frame, request = edge.opened()
        assert (frame.kind, request.method) == (FrameType.EXEC, "POST")
        assert dict(request.headers) == {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        answer = SWITCHED.replace(b"Upgrade\r\n", b"Upgrade\r\nSet-Cookie: a=b\r\n", 1)
        edge.send(frame.connection, b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + answer[:20])
        edge.send(frame.connection, answer[20:] + spdy(bytes(range(256))))
        assert read_until(client, SWITCHED) == SWITCHED
        assert read_until(client, bytes(range(256)))
        client.sendall(bytes(range(255, -1, -1)))
        assert edge.receive() == Frame(frame.connection, FrameType.DATA, bytes(range(255, -1, -1)))
        edge.send(frame.connection, spdy(b"bye", last=True))
        edge.end(frame.connection)
        assert read_all(client) == (spdy(b"bye", last=True), True)


def test_a_node_that_does_not_say_that_a_command_was_cut(site: Site) -> None:
    """As KubeEdge's nodes: the last frame of the command's protocol is missing."""
    with site.edge("n1") as edge, site.client(EXEC, **UPGRADE) as client:
        frame, _ = edge.opened()
        edge.send(frame.connection, SWITCHED + spdy(b"a part"))
        edge.end(frame.connection)
        assert read_all(client)[1] is False


KEPT = b"Connection: keep-alive\r\nContent-Length: %d\r\n\r\n%s"


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (b"HTTP/1.1 200 OK\r\n" + KEPT % (2, b"ok"), 502, b"has not switched to the stream's protocol: status 200"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n" + KEPT % (0, b""), 502, b"status 302"),
        (b"HTTP/1.1 403 Forbidden\r\nSet-Cookie: a=b\r\n" + KEPT % (9, b"forbidden"), 403, b"forbidden"),
        (b"HTTP/1.1 404 Not Found\r\n" + KEPT % (99999, b"x" * 5000), 404, b"x" * 4096),
        (
            b"HTTP/1.1 500 Error\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno!\r\n0\r\nSet-Cookie: a=b\r\n\r\n",
            500,
            b"no!",
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nhalf", 502, b"its answer cannot be read"),
        (b"GET /api/v1/secrets HTTP/1.1\r\n\r\n", 502, b"its answer cannot be read"),
        (b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 40_000, 502, b"its answer cannot be read"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 4000, 502, b"more than 100 informational responses"),
        (b"HTTP/1.1 900 Strange\r\n" + KEPT % (0, b""), 502, b"502"),
        (b"", 502, b"502"),
    ],
    ids=[
        "200",
        "redirect",
        "refused",
        "long",
        "trailer",
        "half",
        "no-answer",
        "endless",
        "hints",
        "no-status",
        "nothing",
    ],
)
def test_only_an_upgrade_reaches_the_client_as_it_came(site: Site, answer: bytes, status: int, text: bytes) -> None:
    """A client, or a proxy before it, would send its next request on a connection that a node has answered."""
    with site.edge("n1") as edge, site.client(EXEC, **UPGRADE) as client:
        frame, _ = edge.opened()
        if answer:
            edge.send(frame.connection, answer)
        edge.end(frame.connection)
        client.sendall(b"GET /api/v1/secrets HTTP/1.1\r\nAuthorization: Bearer abc\r\n\r\n")
        received, _ = read_all(client)
        assert received.startswith(f"HTTP/1.1 {status} ".encode())
        assert text in received
        assert b"\r\nConnection: close\r\n" in received
        assert received.count(b"HTTP/1.1 ") == 1
        for passed in (b"Set-Cookie", b"Location", b"keep-alive"):
            assert passed not in received
        with site.client("GET /containerLogs/n1/web/main"):
            following = edge.receive()
            if following.kind == FrameType.REMOVE:  # the cloud had read enough before the node's end came
                following = edge.receive()
            assert following.kind == FrameType.LOGS  # nothing of the client's came before


def test_a_command_whose_client_goes_is_ended_once(site: Site) -> None:
    with site.edge("n1") as edge:
        with site.client(EXEC, **UPGRADE) as client:
            frame, _ = edge.opened()
            edge.send(frame.connection, SWITCHED)
            assert read_until(client, SWITCHED)
        assert edge.receive() == Frame(frame.connection, FrameType.REMOVE)
        edge.end(frame.connection)
        with site.client("GET /containerLogs/n1/web/main") as client:
            assert edge.opened()[0].kind == FrameType.LOGS  # and nothing else came between


def test_a_command_whose_tunnel_is_cut_is_reset(site: Site) -> None:
    """A polite end would be the command's success to a client of SPDY."""
    with site.edge("n1") as edge, site.client(EXEC, **UPGRADE) as client:
        frame, _ = edge.opened()
        edge.send(frame.connection, SWITCHED)
        assert read_until(client, SWITCHED)
        edge.connection.close()
        assert read_all(client) == (b"", False)


def test_a_node_that_vanishes_loses_its_tunnel(site: Site) -> None:
    """KubeEdge waits for TCP, a quarter of an hour."""
    with site.edge("n1") as edge:
        wait_until(lambda: site.tunnels.has("n1"), "the tunnel")
        site.clock.go(SILENT_SECONDS + 1)
        with pytest.raises(ConnectionClosed):
            edge.receive()
        wait_until(lambda: not site.tunnels.has("n1"), "the tunnel's end")


def test_much_output_arrives_whole_although_the_client_is_slow_to_begin(site: Site) -> None:
    """And another stream of the node is served meanwhile."""
    portion, count = spdy(bytes(range(256)) * 128), 256
    with site.edge("n1") as edge, site.client(EXEC, **UPGRADE) as client:
        frame, _ = edge.opened()

        def produce() -> None:
            edge.send(frame.connection, SWITCHED)
            for _ in range(count):
                edge.send(frame.connection, portion)
            edge.send(frame.connection, spdy(b"", last=True))
            edge.end(frame.connection)

        producer = threading.Thread(target=produce)
        producer.start()
        assert read_until(client, SWITCHED) == SWITCHED
        digest = hashlib.sha256()
        size = 0
        while data := client.recv(65536):
            digest.update(data)
            size += len(data)
        producer.join()
    whole = portion * count + spdy(b"", last=True)
    assert size == len(whole)
    assert digest.digest() == hashlib.sha256(whole).digest()


def test_a_node_that_asks_for_credit_is_granted_as_much_as_the_client_reads(site: Site) -> None:
    """KubeEdge's, which do not ask, are never sent such a frame."""
    with site.edge("n1", SessionStreamCredit="1") as edge, site.client(EXEC, **UPGRADE) as client:
        assert edge.receive() == Frame(0, FrameType.CREDIT)
        frame, _ = edge.opened()
        edge.send(frame.connection, SWITCHED)
        assert read_until(client, SWITCHED) == SWITCHED
        grant = edge.receive()
        assert (grant.connection, grant.kind, credit_of(grant) > FIRST_CREDIT) == (frame.connection, 64, True)
        client.sendall(bytes(2 * FIRST_CREDIT))
        taken = 0
        while taken < FIRST_CREDIT // 2:
            taken += len(edge.receive().data)
        edge.connection.send(credit_frame(frame.connection, 3 * FIRST_CREDIT).encode(), text=True)
        while taken < 2 * FIRST_CREDIT:
            taken += len(edge.receive().data)
        edge.end(frame.connection)


@pytest.mark.parametrize(
    ("is_open", "may_be_read", "seconds", "is_silent"),
    [(True, True, 0.1, True), (True, True, -0.1, False), (True, False, 0.1, False), (False, True, 0.1, False)],
)
def test_only_a_node_that_is_listened_to_falls_silent(
    *, is_open: bool, may_be_read: bool, seconds: float, is_silent: bool
) -> None:
    """A tunnel is not read while a client's queue is full."""
    connection: Any = SimpleNamespace(is_open=is_open, may_be_read=may_be_read, read_at=5.0)
    server: Any = None
    assert TunnelServer._is_silent(server, connection, 5.0 + SILENT_SECONDS + seconds) is is_silent


@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.2:10003", "10.0.0.2"), ("[fd00::2]:10003", "fd00::2"), ("edge-1", "edge-1")]
)
def test_the_node_of_a_request_is_at_the_address_that_was_called(host: str, address: str) -> None:
    tunnels = SimpleNamespace(node_at={address: "n1"}.get)
    service = StreamService(cast("Any", None), cast("Any", None), cast("Any", tunnels), ())
    asked = HttpRequest(method="GET", target="/stats", parts=("stats",), headers=(("host", host),))
    assert service._node_of_host(asked) == "n1"
