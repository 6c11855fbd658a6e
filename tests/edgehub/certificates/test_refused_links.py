"""What the log says when TLS ends a link: the reason in words, from a real handshake each."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from edgehub.tls import client_context
from tests.edgehub.certificates.authority import DAY, NODE, Authority, key_pem, name
from tests.edgehub.clouds import LibraryCloud, ScriptedCloud
from tests.edgehub.links import dial

AUTHORITY = Authority()
OTHER = Authority()


def certificate(directory: Path, signer: Authority, since: float = -60.0) -> Path:
    """A file with a node's certificate and its key."""
    subject = name(f"system:node:{NODE}", "system:nodes")
    issued = signer.sign(AUTHORITY.key.public_key(), subject, since=since)
    file = directory / "node.pem"
    file.write_bytes(issued.public_bytes(Encoding.PEM) + key_pem(AUTHORITY.key))
    return file


def end_of(server: ssl.SSLContext, directory: Path, node: Path | None, host: str = "127.0.0.1") -> str:
    """How a link to a cloud with this context ends."""
    ca = directory / "ca.pem"
    ca.write_bytes(AUTHORITY.certificate.public_bytes(Encoding.PEM))
    with LibraryCloud(server) as cloud:
        at = f"wss://{host}:{cloud.port}/p/edge-1/events"
        with dial(url=at, context=lambda: client_context(ca, node, None)) as running:
            return str(running.wait_end())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("signer", "since", "words"),
    [
        (None, 0.0, "the cloud wants "),
        (OTHER, -60.0, "this node's certificate"),
        (AUTHORITY, -2 * DAY, "this node's certificate has expired"),
    ],
)
def test_the_cloud_refuses_the_node_s_certificate(
    tmp_path: Path, version: ssl.TLSVersion, signer: Authority | None, since: float, words: str
) -> None:
    """None, one of another CA, one that is over; with TLS 1.3 the refusal comes after the handshake."""
    context = AUTHORITY.server_context(tmp_path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    node = None if signer is None else certificate(tmp_path, signer, since)
    assert words in end_of(context, tmp_path, node)


def test_the_node_refuses_a_cloud_of_another_authority(tmp_path: Path) -> None:
    assert "signed by another CA than this node's CA file holds" in end_of(
        OTHER.server_context(tmp_path), tmp_path, None
    )


def test_the_node_refuses_a_cloud_of_another_name(tmp_path: Path) -> None:
    context = AUTHORITY.server_context(tmp_path, names=("cloud.example",))
    assert "the address is not among the names in the cloud's certificate" in end_of(context, tmp_path, None)


@pytest.mark.parametrize(("since", "words"), [(-9 * DAY, "ahead?"), (9 * DAY, "behind?")])
def test_the_node_refuses_a_cloud_of_another_time(tmp_path: Path, since: float, words: str) -> None:
    assert words in end_of(AUTHORITY.server_context(tmp_path, since=since), tmp_path, None)


def test_a_key_that_is_not_the_certificate_s(tmp_path: Path) -> None:
    file = certificate(tmp_path, AUTHORITY)
    file.write_bytes(file.read_bytes().replace(key_pem(AUTHORITY.key), key_pem(OTHER.key)))
    assert "the private key is not that of the certificate" in end_of(
        AUTHORITY.server_context(tmp_path), tmp_path, file
    )


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("nothing")
    assert "is not PEM" in end_of(AUTHORITY.server_context(tmp_path), tmp_path, file)


def test_a_server_without_tls(tmp_path: Path) -> None:
    """It answers something else."""
    with ScriptedCloud() as cloud, dial(url=f"wss://127.0.0.1:{cloud.port}/", context=client_context) as running:
        cloud.connection().socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert "does not speak TLS" in str(running.wait_end())
