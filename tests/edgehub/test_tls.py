"""The same link over TLS, both sides with certificates made on the spot by openssl."""

import shutil
import ssl
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from edgehub.errors import ClosedHereError, DialError
from edgehub.install import CertifiedLink
from edgehub.tls import client_context
from tests.edgehub.clouds import LibraryCloud, ScriptedCloud
from tests.edgehub.links import dial

if TYPE_CHECKING:
    from edgehub.certificates.manager import CertificateManager
    from edgehub.link import LinkEvents

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


class Authority:
    """A CA in a directory, and what it signs: EC keys, as KubeEdge's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate = directory / "ca.crt"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"),
            *("-subj", "/CN=KubeEdge", "-keyout", "ca.key", "-out", "ca.crt"),
        )

    def issue(self, name: str, subject: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1, and its key."""
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "1", "-copy_extensions", "copy", "-out", f"{name}.crt"),
        )
        return self._directory / f"{name}.crt", self._directory / f"{name}.key"

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One CA for all tests."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server_context(authority: Authority) -> ssl.SSLContext:
    """As KubeEdge's cloud has it: the client's certificate is required."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "/O=KubeEdge/CN=KubeEdge"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def secure(port: int) -> str:
    """The URL of a secure cloud."""
    return f"wss://127.0.0.1:{port}/p/edge-1/events"


def test_a_link_with_both_certificates_carries_large_messages_both_ways(
    authority: Authority, server_context: ssl.SSLContext
) -> None:
    """More than a TLS record and more than the sockets' buffers; closing leaves nothing unsent."""
    certificate, key = authority.issue("node", "/O=system:nodes/CN=system:node:edge-1")
    payload = "x" * (3 << 20)
    with LibraryCloud(server_context) as cloud:
        context = partial(client_context, authority.certificate, certificate, key)
        with dial(url=secure(cloud.port), context=context) as running:
            connection = cloud.accept()
            running.wait_open()
            connection.send(payload)
            assert running.frame() == payload.encode()
            for _ in range(3):
                running.link.send(payload.encode())
            running.wait_confirmed(3)
            running.link.send(b"last")
        assert [cloud.frame() for _ in range(4)] == [payload] * 3 + ["last"]


def test_a_silent_peer_is_given_up_during_the_handshake(authority: Authority) -> None:
    """After the handshake timeout."""
    with ScriptedCloud() as cloud:
        context = partial(client_context, authority.certificate)
        with dial(url=secure(cloud.port), context=context, handshake_timeout=0.2) as running:
            cloud.connection()
            end = running.wait_end()
    assert isinstance(end, DialError)
    assert "in time" in str(end)


def test_files_that_cannot_be_read_are_an_end_and_not_a_failure(tmp_path: Path) -> None:
    """They may be there at the next try."""
    context = partial(client_context, tmp_path / "absent.crt")
    with ScriptedCloud() as cloud, dial(url=secure(cloud.port), context=context) as running:
        end = running.wait_end()
    assert isinstance(end, DialError)


def test_a_link_that_is_closed_waits_for_no_certificate() -> None:
    """Its key is being made, or the cloud is asked: both take as long as they like."""
    cancelled: list[bool] = []
    certificates = SimpleNamespace(ensure=lambda _: None, cancel=lambda: cancelled.append(True))
    link = CertifiedLink(lambda: pytest.fail("no link is made"), cast("CertificateManager", certificates))
    link.close()
    assert cancelled == [True]
    assert isinstance(link.run(cast("LinkEvents", None)), ClosedHereError)
