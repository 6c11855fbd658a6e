"""The stub with TLS: a node that has nothing but a token joins, connects, and gets its next certificate."""

import hashlib
import http.client
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from modules.cloud.cloudhub.certificates.authority import pem_of_key
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.cloudcore.errors import ControlError
from tests.modules.cloud.cloudhub.certificates.made import csr, new_key
from tests.modules.cloud.objects import node
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE


class Joining:
    """What a node does by hand: the steps of docs/protocol.md, "Certificates"."""

    def __init__(self, stub: Stub, directory: Path) -> None:
        self._https = stub.core.addresses[1]
        self._directory = directory
        self.authority = self.get("/ca.crt", ssl._create_unverified_context())[1]  # noqa: S323 - the hash is checked

    def get(
        self, path: str, context: ssl.SSLContext, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, bytes]:
        with closing(http.client.HTTPSConnection(*self._https, timeout=PATIENCE, context=context)) as connection:
            connection.request("GET", path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority)

    def certificate(self, name: str, context: ssl.SSLContext, **headers: str) -> ssl.SSLContext:
        """Gets a certificate for a new key; gives the context of a node that has both."""
        key = new_key()
        status, body = self.get("/edge.crt", context, {"NodeName": name, **headers}, csr(name, key))
        assert status == 200, body
        path = self._directory / f"{name}.pem"
        path.write_bytes(x509.load_der_x509_certificate(body).public_bytes(Encoding.PEM) + pem_of_key(key))
        having = self.context()
        having.load_cert_chain(path)
        return having


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with Stub(tmp_path, tls=TlsConfig(directory=tmp_path / "tls", https_port=0)) as running:
        yield running


def test_a_token_is_all_that_a_node_needs(stub: Stub, tmp_path: Path) -> None:
    """CA, hash, certificate, link, registration, the CA again over the link, and the next certificate."""
    digest, _, jwt = stub.client.token(3600.0).partition(".")
    joining = Joining(stub, tmp_path)
    assert hashlib.sha256(joining.authority).hexdigest() == digest
    assert joining.get("/node/n1", joining.context()) == (404, b"Node not found")
    having = joining.certificate("n1", joining.context(), Authorization=f"Bearer {jwt}")
    with stub.edge("n1", having) as edge:
        assert edge.ask("null/node/n1", "insert", node()).content_as(dict)["Err"] is None
        pem = edge.ask("k8s/ca.crt", "query").content_as(str)
        assert ssl.PEM_cert_to_DER_cert(pem) == joining.authority
    assert joining.get("/node/n1", joining.context()) == (200, b"Node found")
    rotated = joining.certificate("n1", having)
    with stub.edge("n1", rotated) as edge:
        assert edge.ask("null/node/n1", "query").content_as(dict)["metadata"]["name"] == "n1"


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e12])
def test_a_token_without_a_sensible_life_is_refused(stub: Stub, seconds: float) -> None:
    """And the registrar goes on."""
    with pytest.raises(ControlError):
        stub.client.token(seconds)
    assert stub.client.token(0.0).count(".") == 3
