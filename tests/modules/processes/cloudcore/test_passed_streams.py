"""Streams of a node that are asked of the wrong one of two cloudcores: real TLS, one database, one authority."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from modules.cloud.router import status_writer
from modules.processes.cloudcore.config import CloudStreamConfig
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudstream.edges import DEADLINE, edge_at
from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.processes.cloudcore.test_passed_on_calls import TOKEN, Two

PATH = "/api/v1/nodes/n1/proxy/stats/summary"


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    monkeypatch.setattr(status_writer, "FIRST", 0.05)
    with ExitStack() as stack:
        yield Two(tmp_path, stack, cloud_stream=CloudStreamConfig(tunnel_port=0), secure_port=0)


def asked(stub: Stub, context: ssl.SSLContext, headers: dict[str, str]) -> tuple[int, bytes]:
    """Status and body of a cloudcore's answer."""
    connection = HTTPSConnection("127.0.0.1", stub.core.api_port, timeout=DEADLINE, context=context)
    connection.request("GET", PATH, headers=headers)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def test_a_user_asks_either_cloudcore(two: Two) -> None:
    """The one without the tunnel checks the user; without a tunnel anywhere, the answer is an error at once."""
    wait_until(lambda: "n1" in two.first.client.cloudcores().elsewhere(), "the first one knows who has the node")
    hint = b"the node has no stream tunnel to this cloudcore: if it is connected"
    wait_until(lambda: hint in asked(two.first, two.context, TOKEN)[1], "the second one has said where its router is")
    forged = {"X-Cloudcore-Node": "n1"}
    with edge_at(two.second.core.tunnel_port, "n1", two.node) as edge:

        def answer() -> None:
            for _ in range(2):
                frame, request = edge.opened()
                edge.send(frame.connection, request.target.encode())
                edge.end(frame.connection)

        node = threading.Thread(target=answer, daemon=True)
        node.start()
        assert [asked(each, two.context, TOKEN) for each in (two.second, two.first)] == [(200, b"/stats/summary")] * 2
        node.join(DEADLINE)
        assert asked(two.first, two.context, forged)[0] == 403
        assert asked(two.first, two.of_node("n2"), forged)[0] == 403
