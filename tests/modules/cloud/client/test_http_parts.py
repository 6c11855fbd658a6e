"""The pure parts of the transport: URLs, heads of requests, the pool."""

from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from modules.cloud.client.credentials.source import RequestCredentials
from modules.cloud.client.http.connection import HttpConnection, RequestHead, request_text
from modules.cloud.client.http.pool import IDLE_SECONDS, ConnectionPool
from modules.cloud.client.http.response_reader import MAX_HEAD
from modules.cloud.client.http.server_url import is_literal, server_url
from modules.cloud.client.http.transport import RequestHeads, TlsContexts
from modules.cloud.client.kubeconfig.model import ClusterEntry, Selected, UserEntry
from modules.cloud.client.kubeconfig.reading import KubeconfigError
from modules.cloud.client.transport import ApiRequest, ResponseHead
from modules.cloud.client.transport_errors import KubeTlsError, KubeTooLargeError


def selected(server: str = "https://host", proxy: str = "", user: UserEntry | None = None) -> Selected:
    """A kubeconfig's choice."""
    return Selected(where="config", cluster=ClusterEntry(server=server, proxy_url=proxy), user=user or UserEntry())


@pytest.mark.parametrize(
    ("server", "address", "host", "prefix"),
    [
        ("https://host", "host:443", "host", ""),
        ("https://host:443/", "host:443", "host", ""),
        ("https://host:6443/a/b/", "host:6443", "host:6443", "/a/b"),
        ("http://[::1]", "[::1]:80", "[::1]", ""),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", "[fd00::1]:6443", ""),
        ("host:6443", "host:6443", "host:6443", ""),
    ],
)
def test_servers(server: str, address: str, host: str, prefix: str) -> None:
    """Ports of the schemes, brackets and prefixes; without a scheme it is https."""
    url = server_url(selected(server))
    assert (url.address, url.host_header, url.prefix) == (address, host, prefix)
    assert url.is_https is (not server.startswith("http:"))


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://", ""),
        ("unix:///socket", ""),
        ("https://host:port", ""),
        ("https://host:70000", ""),
        ("https://[::1", ""),
        ("https://me:secret@host", ""),
        ("https://host?x", ""),
        ("https://host\n.example", ""),
        ("https://höst", ""),
        ("https://my host", ""),
        ("https://host", "socks5://me:secret@proxy:1080"),
        ("https://host", "https://me:secret@proxy"),
        ("https://host", "proxy:3128"),
    ],
)
def test_urls_that_cannot_be_used(server: str, proxy: str) -> None:
    """Each is an error of the kubeconfig, which names no password."""
    with pytest.raises(KubeconfigError) as raised:
        server_url(selected(server, proxy))
    assert "secret" not in str(raised.value)


def test_addresses_need_no_resolver() -> None:
    """IPv4, IPv6 and IPv6 with a zone."""
    assert [is_literal(each) for each in ("10.0.0.1", "::1", "fe80::1%eth0", "host", "10.0.0")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_request_is_sent_as_somebody_else() -> None:
    """The headers of impersonation, with the keys of extras escaped as client-go does."""
    user = UserEntry(
        as_user="system:node:n1", as_uid="1", as_groups=("system:nodes", "b"), as_user_extra={"a/b c": ("1", "2")}
    )
    heads = RequestHeads(server_url(selected()), selected(user=user), "agent/1")
    head = heads.head(ApiRequest(method="DELETE", path="/x"), RequestCredentials("Bearer t"))
    assert head.headers == [
        ("Host", "host"),
        ("User-Agent", "agent/1"),
        ("Impersonate-User", "system:node:n1"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "system:nodes"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-a%2Fb%20c", "1"),
        ("Impersonate-Extra-a%2Fb%20c", "2"),
        ("Accept", "application/json"),
        ("Authorization", "Bearer t"),
    ]


@pytest.mark.parametrize(("method", "length"), [("GET", None), ("POST", "0"), ("PUT", "0"), ("DELETE", None)])
def test_a_write_without_a_body_has_the_length_0(method: str, length: str | None) -> None:
    """RFC 9110 §8.6; proxies answer 411 without it."""
    heads = RequestHeads(server_url(selected()), selected(), "agent/1")
    head = heads.head(ApiRequest(method=method, path="/x"), RequestCredentials())
    assert dict(head.headers).get("Content-Length") == length


@pytest.mark.parametrize(("server", "is_sent"), [("http://host", True), ("https://host", False)])
def test_the_password_of_a_proxy_is_not_sent_through_its_tunnel(server: str, is_sent: bool) -> None:
    choice = selected(server, "http://me:secret@proxy:3128")
    heads = RequestHeads(server_url(choice), choice, "agent/1")
    head = heads.head(ApiRequest(method="GET", path="/x"), RequestCredentials())
    assert ("Proxy-Authorization" in dict(head.headers)) is is_sent


def test_a_pair_that_cannot_be_read_leads_to_no_connection() -> None:
    """However often it is tried; without a context the connection would have no TLS."""
    contexts = TlsContexts(selected().cluster, server_url(selected()))
    for _ in range(2):
        with pytest.raises(KubeTlsError):
            contexts.context(RequestCredentials("Bearer t", b"no certificate", b"no key"))
    assert contexts.context(RequestCredentials("Bearer t")) is not None


def test_the_user_of_a_request_takes_the_place_of_the_kubeconfigs() -> None:
    """A server takes the first of two users: a node's request would be made with the rights of the kubeconfig's."""
    user = UserEntry(as_user="admin", as_uid="1", as_groups=("system:masters",), as_user_extra={"a": ("1",)})
    heads = RequestHeads(server_url(selected()), selected(user=user), "agent/1")
    node = (("Impersonate-User", "system:node:n1"), ("Impersonate-Group", "system:nodes"))
    head = heads.head(ApiRequest(method="GET", path="/x", headers=node), RequestCredentials("Bearer t"))
    assert tuple(each for each in head.headers if each[0].startswith("Impersonate-")) == node


@pytest.mark.parametrize(
    "head",
    [
        RequestHead("GET", "/", [("A", "b\r\nImpersonate-User: admin")]),
        RequestHead("GET", "/", [("A: b\r\nC", "d")]),
        RequestHead("GET", "/ HTTP/1.1\r\nA: b", [("C", "d")]),
        RequestHead("GET", "/ x", [("A", "b")]),
        RequestHead("GET /", "/", [("A", "b")]),
        RequestHead("GET", "/", [("A", "b\x7f")]),
    ],
)
def test_no_part_of_a_head_adds_another(head: RequestHead) -> None:
    """A name of a node could be an administrator's header."""
    with pytest.raises(ValueError, match="HTTP does not allow"):
        request_text(head, b"")


def test_a_group_needs_a_user() -> None:
    """As the API server answers 400 to it."""
    with pytest.raises(KubeconfigError, match="need a user: set as"):
        RequestHeads(server_url(selected()), selected(user=UserEntry(as_groups=("a",))), "agent/1")


class Asked:
    """An exchange."""

    def __init__(self, *, stream: bool = False) -> None:
        self.request = ApiRequest(method="GET", path="/", stream=stream)
        self.is_done = False


def carried(pool: ConnectionPool[Asked, str], connection: str) -> Asked | None:
    """Let the next exchange that may have a connection have one."""
    exchange = pool.first()
    if exchange is not None:
        pool.admit(exchange)
        pool.use(connection, exchange)
    return exchange


def test_requests_keep_their_order() -> None:
    """Abandoned requests are left out; a repeated one comes first."""
    pool: ConnectionPool[Asked, str] = ConnectionPool(1, 1)
    asked = [Asked() for _ in range(4)]
    for each in asked[:3]:
        pool.put(each)
    assert carried(pool, "a") is asked[0]
    assert carried(pool, "b") is None
    asked[1].is_done = True
    pool.put_first(asked[3])
    pool.forget("a")
    assert carried(pool, "b") is asked[3]
    pool.keep("b", 0.0)
    assert carried(pool, "b") is asked[2]


def test_streams_have_places_of_their_own() -> None:
    """Neither takes the place of the other."""
    pool: ConnectionPool[Asked, str] = ConnectionPool(1, 2)
    streams, request = [Asked(stream=True) for _ in range(3)], Asked()
    for each in (*streams, request):
        pool.put(each)
    assert [carried(pool, name) for name in "abcd"] == [request, streams[0], streams[1], None]
    assert pool.waiting() == [streams[2]]
    assert sorted(pool.connections()) == ["a", "b", "c"]


def test_few_idle_connections_are_kept() -> None:
    """The last that became idle is used first; the oldest goes when there are too many, or its time has come."""
    pool: ConnectionPool[Asked, str] = ConnectionPool(2, 2)
    assert [pool.keep(name, at) for name, at in (("a", 1.0), ("b", 2.0), ("c", 3.0))] == [None, None, "a"]
    assert pool.idle_until() == 2.0 + IDLE_SECONDS
    assert pool.expire(1.0 + IDLE_SECONDS) == []
    assert pool.expire(2.0 + IDLE_SECONDS) == ["b"]
    assert [pool.idle(), pool.idle(), pool.idle_until()] == ["c", None, None]


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_connection_that_was_forgotten_is_given_to_nobody(is_idle: bool) -> None:
    """It is closed; a request that got it would wait for its deadline."""
    pool: ConnectionPool[Asked, str] = ConnectionPool(1, 1)
    pool.use("a", Asked())
    if is_idle:
        pool.keep("a", 0.0)
    pool.forget("a")
    assert (pool.connections(), pool.idle(), pool.idle_until()) == ([], None, None)


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_the_head_of_a_response_is_bounded_with_its_separators(more: int, *, fits: bool) -> None:
    """One that is too long is not told to who has asked."""
    connection, exchange = HttpConnection(Mock(), None, "server"), Mock()
    headers = ("a", "x" * (MAX_HEAD // 2 - 5)), ("b", "x" * (MAX_HEAD // 2 - 5 + more))
    with nullcontext() if fits else pytest.raises(KubeTooLargeError):
        connection._handle_part(exchange, ResponseHead(200, headers))
    assert exchange.head.called is fits
