"""The transport over TLS and through a proxy, on real sockets."""

import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from modules.cloud.client.http.resolver import Resolver
from modules.cloud.client.kubeconfig.model import UserEntry
from modules.cloud.client.transport_errors import KubeConnectError, KubeDeadlineError, KubeTlsError
from tests.edgehub.certificates.authority import Authority, key_pem, name
from tests.modules.cloud.client.servers import Client, Peer, ScriptedServer, answering, client
from tests.support.patience import PATIENCE


def authority_pem(authority: Authority) -> bytes:
    """The CA's certificate."""
    return authority.certificate.public_bytes(Encoding.PEM)


def pair(authority: Authority, common: str) -> tuple[bytes, bytes]:
    """A client's certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    return authority.sign(key.public_key(), name(common)).public_bytes(Encoding.PEM), key_pem(key)


def named(peer: Peer) -> None:
    """A script that answers with the name in the client's certificate."""
    while True:
        peer.request()
        assert isinstance(peer.socket, ssl.SSLSocket)
        certificate = peer.socket.getpeercert() or {}
        names = dict(each[0] for each in cast("Any", certificate.get("subject", ())))
        peer.answer(body=names.get("commonName", "nobody").encode())


@pytest.fixture
def authority() -> Authority:
    return Authority()


def test_an_intermediate_authority_is_trusted_without_its_root(authority: Authority, tmp_path: Path) -> None:
    """As client-go trusts it, on each version of Python."""
    authority.certificate = Authority().sign(
        authority.key.public_key(), name("KubeEdge"), authority=True, issuer="Root"
    )
    with ScriptedServer(answering(body=b"ok"), context=authority.server_context(tmp_path)) as server:
        url = f"https://127.0.0.1:{server.port}"
        with client(url, certificate_authority_data=authority_pem(authority)) as api:
            assert api.ask() == (200, b"ok")


def test_a_server_of_the_own_authority_is_trusted(authority: Authority, tmp_path: Path) -> None:
    """With the authority as data or as a file; a large response arrives whole; the connection is kept."""
    context = authority.server_context(tmp_path)
    body = b"x" * 1_000_000
    file = tmp_path / "ca.crt"
    file.write_bytes(authority_pem(authority))
    with ScriptedServer(answering(body=body), context=context) as server:
        url = f"https://127.0.0.1:{server.port}"
        with client(url, certificate_authority_data=authority_pem(authority)) as api:
            assert [api.ask(), api.ask("/", "PUT", body=body)] == [(200, body)] * 2
        with client(url, certificate_authority=str(file)) as api:
            assert api.ask() == (200, body)
        assert server.connections == 2


@pytest.mark.parametrize(
    ("names", "life", "words"),
    [
        (("127.0.0.1",), 10.0, "expired: renew it"),
        (("10.0.0.1",), 3600.0, "is for another address: set tls-server-name"),
        (("kubernetes.default",), 3600.0, "set tls-server-name"),
    ],
)
def test_a_wrong_certificate_is_refused(
    authority: Authority, tmp_path: Path, names: tuple[str, ...], life: float, words: str
) -> None:
    """An expired certificate, or one for another host, is an error in plain words."""
    context = authority.server_context(tmp_path, names, life, since=-60.0)
    with (
        ScriptedServer(answering(), context=context) as server,
        client(f"https://127.0.0.1:{server.port}", certificate_authority_data=authority_pem(authority)) as api,
    ):
        error = api.start("/", "POST").error()
        assert isinstance(error, KubeTlsError)
        assert words in str(error)
        assert not error.is_unanswered


def test_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    """A server with another CA's certificate, or a CA that no kubeconfig names, is refused."""
    with ScriptedServer(answering(), context=authority.server_context(tmp_path)) as server:
        url = f"https://127.0.0.1:{server.port}"
        for trusted in (authority_pem(Authority()), b""):
            with client(url, certificate_authority_data=trusted) as api:
                error = api.start().error()
                assert isinstance(error, KubeTlsError)
                assert "authority that is not trusted: check certificate-authority" in str(error)
        with client(url, insecure_skip_tls_verify=True) as api:
            assert api.ask() == (200, b"{}")


def test_the_server_may_have_another_name(authority: Authority, tmp_path: Path) -> None:
    """`tls-server-name` is what the certificate must be for."""
    context = authority.server_context(tmp_path, ("kubernetes.default",))
    trusted = authority_pem(authority)
    with ScriptedServer(answering(), context=context) as server:
        url = f"https://127.0.0.1:{server.port}"
        with client(url, certificate_authority_data=trusted, tls_server_name="kubernetes.default") as api:
            assert api.ask() == (200, b"{}")
        with client(url, certificate_authority_data=trusted, tls_server_name="kubernetes.other") as api:
            assert "is for another name" in str(api.start().error())


def test_a_client_certificate_is_sent(authority: Authority, tmp_path: Path) -> None:
    """From data, and from files that are read again after a rotation, on a new connection then; none stay on disk."""
    context = authority.server_context(tmp_path)
    trusted = authority_pem(authority)
    certificate, key = pair(authority, "from-data")
    with ScriptedServer(named, context=context) as server:
        url = f"https://127.0.0.1:{server.port}"
        user = UserEntry(client_certificate_data=certificate, client_key_data=key)
        with client(url, user, certificate_authority_data=trusted) as api:
            assert api.ask() == (200, b"from-data")
        files = tmp_path / "client.crt", tmp_path / "client.key"
        user = UserEntry(client_certificate=str(files[0]), client_key=str(files[1]))
        with client(url, user, certificate_authority_data=trusted) as api:
            for each in ("first", "first", "second-one"):
                for file, content in zip(files, pair(authority, each), strict=True) if not _has(files, each) else ():
                    file.write_bytes(content)
                assert api.ask() == (200, each.encode())
        assert server.connections == 3


def _has(files: tuple[Path, Path], common: str) -> bool:
    from cryptography import x509  # noqa: PLC0415 - for this only

    if not files[0].exists():
        return False
    return common in x509.load_pem_x509_certificate(files[0].read_bytes()).subject.rfc4514_string()


def test_a_pair_that_does_not_fit_is_an_error(authority: Authority, tmp_path: Path) -> None:
    """A key of another certificate, or text that is no PEM; the error contains none of it."""
    certificate, key = pair(authority, "a")
    other = pair(authority, "b")[1]
    trusted = authority_pem(authority)
    for wrong in (other, b"secret", key.replace(b"BEGIN", b"BEGUN")):
        user = UserEntry(client_certificate_data=certificate, client_key_data=wrong)
        with client("https://127.0.0.1:1", user, certificate_authority_data=trusted) as api:
            error = api.start().error()
            assert isinstance(error, KubeTlsError)
            assert "client-certificate and client-key are not a PEM pair" in str(error)
            assert "secret" not in str(error)
    with client("https://127.0.0.1:1", certificate_authority=str(tmp_path / "none")) as api:
        assert "certificate-authority(-data): no such file" in str(api.start().error()).lower()


@contextmanager
def demanding(authority: Authority, directory: Path, version: ssl.TLSVersion) -> Iterator[Client]:
    """A client without a certificate, of a server that demands one."""
    context = authority.server_context(directory)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    with (
        ScriptedServer(answering(), context=context) as server,
        client(f"https://127.0.0.1:{server.port}", certificate_authority_data=authority_pem(authority)) as api,
    ):
        yield api


def test_a_certificate_is_demanded(authority: Authority, tmp_path: Path) -> None:
    """A server that demands a client certificate is understood."""
    with demanding(authority, tmp_path, ssl.TLSVersion.TLSv1_2) as api:
        assert isinstance(api.start().error(), KubeConnectError)


def test_a_write_that_tls_has_refused_was_not_carried_out(authority: Authority, tmp_path: Path) -> None:
    """TLS 1.3 demands the client's certificate when the client has sent its request already."""
    with demanding(authority, tmp_path, ssl.TLSVersion.TLSv1_3) as api:
        error = api.start("/", "POST", body=b"{}").error()
        assert isinstance(error, KubeTlsError)
        assert not error.is_unanswered


def test_the_key_is_in_a_private_file_for_a_moment(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads certificate and key from one file, which only this user may read and which is gone then."""
    seen: list[tuple[str, int]] = []

    def load_cert_chain(_: object, certfile: str, password: object) -> None:
        seen.append((certfile, Path(certfile).stat().st_mode & 0o777))

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_cert_chain)
    user = UserEntry(client_certificate_data=b"c", client_key_data=b"k")
    with client("https://127.0.0.1:1", user, certificate_authority_data=authority_pem(authority)) as api:
        api.start().error()
    assert [mode for _, mode in seen] == [0o600]
    assert not Path(seen[0][0]).exists()


def test_a_server_without_tls(authority: Authority) -> None:
    """https:// to a port without TLS says so."""

    def script(peer: Peer) -> None:
        peer.socket.recv(65536)
        peer.raw(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with ScriptedServer(script) as server, client(f"https://127.0.0.1:{server.port}") as api:
        error = api.start().error()
        assert isinstance(error, KubeTlsError)
        assert "does not speak TLS on this port" in str(error)


def test_a_silent_server_is_left() -> None:
    """Ten seconds without TLS end the connection."""
    accepted = threading.Event()

    def script(peer: Peer) -> None:
        accepted.set()
        peer.closed()

    with ScriptedServer(script) as server, client(f"https://127.0.0.1:{server.port}") as api:
        heard = api.start("/", "POST", timeout=PATIENCE)
        assert accepted.wait(PATIENCE)
        api.clock.wait_for_timer(10.0)
        api.clock.go(10.0)
        error = heard.error()
        assert isinstance(error, KubeConnectError)
        assert "no answer within 10 s" in str(error)
        late = api.start("/", timeout=2.0)
        api.clock.wait_for_timer(2.0)
        api.clock.go(2.0)
        assert isinstance(late.error(), KubeDeadlineError)


def test_each_silent_address_of_a_name_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its ten seconds."""
    accepted = threading.Semaphore(0)

    def silent(peer: Peer) -> None:
        accepted.release()
        peer.closed()

    with ScriptedServer(silent) as server, client(f"https://host:{server.port}") as api:
        addresses = [(socket.AF_INET, ("127.0.0.1", server.port))] * 3
        monkeypatch.setattr(Resolver, "resolve", lambda _self, found: found(addresses, ""))
        heard = api.start("/", timeout=600.0)
        for _ in addresses:
            assert accepted.acquire(timeout=PATIENCE)
            api.clock.wait_for_timer(10.0)
            api.clock.go(10.0)
        assert isinstance(heard.error(), KubeConnectError)
        assert server.connections == 3


class Proxy:
    """A script of a proxy that opens tunnels, and hands on plain requests' heads."""

    def __init__(self, status: int = 200, port: int = 0) -> None:
        self.status = status
        self.port = port
        self.heads: queue.Queue[tuple[str, dict[str, str]]] = queue.Queue()

    def __call__(self, peer: Peer) -> None:
        head, _ = peer.request()
        self.heads.put((f"{head.method.decode()} {head.target.decode()}", dict(_texts(head.headers))))
        if head.method != b"CONNECT":
            peer.answer(body=b"proxied")
            return
        peer.raw(b"HTTP/1.1 %d any\r\n\r\n" % self.status)
        if self.status == 200:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as server:
                back = threading.Thread(target=_copy, args=(server, peer.socket))
                back.start()
                _copy(peer.socket, server)
                back.join(PATIENCE)


def _texts(headers: object) -> list[tuple[str, str]]:
    return [(key.decode(), value.decode()) for key, value in headers]  # type: ignore[attr-defined]


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def test_a_tunnel_through_a_proxy(authority: Authority, tmp_path: Path) -> None:
    """TLS is between client and server; the proxy sees a CONNECT with its password, which no error names."""
    context = authority.server_context(tmp_path, ("api.example",))
    with ScriptedServer(answering(body=b"inside"), context=context) as server:
        proxy = Proxy(port=server.port)
        with (
            ScriptedServer(proxy) as through,
            client(
                "https://api.example:6443", certificate_authority_data=authority_pem(authority),
                proxy_url=f"http://me:pass%20word@127.0.0.1:{through.port}",
            ) as api,
        ):  # fmt: skip
            assert [api.ask(), api.ask()] == [(200, b"inside")] * 2
        seen = {"host": "api.example:6443", "proxy-authorization": "Basic bWU6cGFzcyB3b3Jk"}
        assert proxy.heads.get(timeout=PATIENCE) == ("CONNECT api.example:6443", seen)
        assert proxy.heads.empty()


@pytest.mark.parametrize(("status", "words"), [(407, "wants a user"), (403, "answers 403: check what it may")])
def test_a_proxy_that_refuses(status: int, words: str) -> None:
    """The error names the proxy, not its password."""
    with ScriptedServer(Proxy(status)) as through:
        url = f"http://me:secret@127.0.0.1:{through.port}"
        with client("https://api.example", proxy_url=url) as api:
            error = api.start("/", "POST").error()
    assert isinstance(error, KubeConnectError)
    assert words in str(error)
    assert f"through the proxy http://127.0.0.1:{through.port}: https://api.example:443" in str(error)
    assert "secret" not in str(error)


def test_a_proxy_without_a_tunnel() -> None:
    """A request to an http server goes to the proxy with the whole URL."""
    proxy = Proxy()
    with ScriptedServer(proxy) as through:
        url = f"http://me:x@127.0.0.1:{through.port}"
        with client("http://api.example/prefix", proxy_url=url) as api:
            assert api.ask("/version") == (200, b"proxied")
    line, headers = proxy.heads.get(timeout=PATIENCE)
    assert line == "GET http://api.example/prefix/version"
    assert (headers["host"], headers["proxy-authorization"]) == ("api.example", "Basic bWU6eA==")
