"""Both ends of TLS in memory, as the client of the Kubernetes API and cloudhub have them."""

import ssl
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import websocket_context
from modules.cloud.tls_stream import TlsStream
from tests.modules.cloud.cloudhub.certificates.made import YEAR, chain

HOST = "127.0.0.1"


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a client and of a server that trust each other."""
    now = RealClock().now()
    files = AuthorityFiles(tmp_path / "tls")
    authority = open_authority(files, [HOST], now - YEAR)
    client = ssl.create_default_context(cafile=str(files.authority))
    pair = tmp_path / "n1.pem"
    pair.write_bytes(chain(authority, "n1", now - YEAR, 2 * YEAR))
    client.load_cert_chain(pair)
    return client, websocket_context(files)


def connected(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> tuple[TlsStream, TlsStream]:
    """Client and server after the handshake."""
    client, server = TlsStream(contexts[0], HOST), TlsStream(contexts[1])
    sent = b""
    while not (client.is_established and server.is_established):
        assert client.decrypt(sent) == b""
        assert server.decrypt(client.to_send()) == b""
        sent = server.to_send()
    assert client.decrypt(sent) == b""
    return client, server


def test_bytes_pass_both_ways_in_as_many_records_as_they_need(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    client, server = connected(contexts)
    assert server.decrypt(client.encrypt(b"x" * 100_000)) == b"x" * 100_000
    sealed = server.encrypt(b"y" * 16_384)
    assert client.decrypt(sealed[:-9]) == b""
    assert client.decrypt(sealed[-9:]) == b"y" * 16_384, "nothing waits for further bytes"
    sealed = server.encrypt(b"answer")
    assert client.decrypt(sealed[:7]) == b""
    assert client.decrypt(sealed[7:]) == b"answer"
    assert not (client.is_ended or server.is_ended)


def test_the_server_knows_whose_certificate_it_verified(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    _, server = connected(contexts)
    certificate = server.certificate()
    assert certificate is not None
    assert (("commonName", "system:node:n1"),) in certificate["subject"]


def test_bytes_before_the_end_are_returned_with_it(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    """`unwrap` sends `close_notify`, and raises because the other end sends none."""
    client, server = connected(contexts)
    sealed = client.encrypt(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client._tls.unwrap()
    assert server.decrypt(sealed + client.to_send()) == b"last"
    assert server.is_ended


def test_a_failure_has_an_alert_for_the_peer(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    client, server = TlsStream(contexts[0], "another.name"), TlsStream(contexts[1])
    client.decrypt(b"")
    server.decrypt(client.to_send())
    with pytest.raises(ssl.SSLCertVerificationError):
        client.decrypt(server.to_send())
    with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
        server.decrypt(client.to_send())
