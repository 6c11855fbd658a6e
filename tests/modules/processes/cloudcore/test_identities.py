"""Revocations, the keys to which names belong, and tokens, at every port of a cloudcore."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from modules.processes.cloudcore.config import CloudStreamConfig, RouterConfig, TlsConfig
from tests.modules.cloud.cloudhub.certificates.made import csr, new_key
from tests.modules.cloud.objects import node
from tests.modules.processes.cloudcore.stubs import DEADLINE, Edge, Stub
from tests.modules.processes.cloudcore.test_tls import Joining


def started(directory: Path) -> Stub:
    tls = TlsConfig(directory=directory / "tls", https_port=0)
    ports = {"router": RouterConfig(port=0), "cloud_stream": CloudStreamConfig(tunnel_port=0)}
    return Stub(directory, tls=tls, secure_port=0, **ports)


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with started(tmp_path) as running:
        yield running


def bearer(stub: Stub, **options: object) -> str:
    return f"Bearer {stub.client.token(3600.0, **options).partition('.')[2]}"  # type: ignore[arg-type]


def join(stub: Stub, directory: Path, name: str = "n1", **options: object) -> ssl.SSLContext:
    joining = Joining(stub, directory)
    return joining.certificate(name, joining.context(), Authorization=bearer(stub, **options))


def refused(stub: Stub, context: ssl.SSLContext, name: str = "n1") -> str:
    """Why the websocket refuses a node."""
    with pytest.raises(InvalidStatus) as error, stub.edge(name, context):
        pass
    assert error.value.response.status_code == 403
    return (error.value.response.body or b"").decode()


def close_of(edge: Edge) -> tuple[int, str]:
    """How the cloud ends a link."""
    with pytest.raises(ConnectionClosed) as error:
        while True:
            edge.receive()
    assert error.value.rcvd is not None
    return error.value.rcvd.code, error.value.rcvd.reason


def get(port: int, path: str, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=DEADLINE, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_revoked_node_is_locked_out_everywhere_until_it_is_allowed(tmp_path: Path) -> None:
    """Its link ends, with the reason; no port takes its certificate or a token for it, after a restart either."""
    with started(tmp_path) as stub:
        having = join(stub, tmp_path)
        joining = Joining(stub, tmp_path)
        assert get(stub.core.api_port, "/api/v1/nodes/n1", having) == 404
        with stub.edge("n1", having) as edge:
            assert edge.ask("null/node/n1", "insert", node()).content_as(dict)["Err"] is None
            assert stub.client.revoke("node", "n1", "stolen") == ""
            code, reason = close_of(edge)
        assert code == 1008
        assert reason.startswith("node n1 is revoked since")
    with started(tmp_path) as stub:
        assert "cloudcore allow node n1" in refused(stub, having)
        assert [each.why for each in stub.client.connections().refused] == [refused(stub, having).strip()]
        joining = Joining(stub, tmp_path)
        assert joining.get("/edge.crt", having, {"NodeName": "n1"}, csr("n1", new_key()))[0] == 401
        headers = {"NodeName": "n1", "Authorization": bearer(stub)}
        status, body = joining.get("/edge.crt", joining.context(), headers, csr("n1", new_key()))
        assert (status, b"revoked" in body) == (403, True)
        assert get(stub.core.api_port, "/api/v1/nodes/n1", having) == 401
        assert get(stub.core.callers_port, "/n1/default/x", having) == 401
        assert stub.client.allow("node", "n1") == ""
        with stub.edge("n1", having) as edge:
            assert edge.ask("null/node/n1", "query").content_as(dict)["metadata"]["name"] == "n1"
        assert get(stub.core.api_port, "/api/v1/nodes/n1", having) == 200
        assert stub.client.allow("node", "n1") == "node n1 is not revoked"
