"""cloudcore at its stop: it lets its nodes go, and finishes what it has begun."""

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed

from modules.processes.cloudcore.process import CloudCore
from tests.modules.cloud.objects import node, pod
from tests.modules.processes.cloudcore.stubs import Edge, Stub, acknowledged, edge_at
from tests.modules.processes.cloudcore.test_cli import Running
from tests.support.control_client import Apply
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.timeout(600)


@contextmanager
def draining(core: CloudCore) -> Iterator[None]:
    """cloudcore lets its nodes go, on another thread, until the block ends."""
    thread = threading.Thread(target=core.drain)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def the_end(edge: Edge) -> ConnectionClosed:
    """How the connection of an edge ends."""
    with pytest.raises(ConnectionClosed) as ended:
        while True:
            edge.receive()
    return ended.value


def test_sigterm_ends_connections_with_a_close_frame(tmp_path: Path) -> None:
    """The node knows immediately that it has to connect elsewhere, and why. cloudcore exits with 0."""
    running = Running(tmp_path, "--ready-file", str(tmp_path / "ready"))
    try:
        host, _, port = (tmp_path / "ready").read_text().strip().rpartition(":")
        with edge_at(host, int(port), "n1") as one, edge_at(host, int(port), "n2") as other:
            one.ask("null/node/n1", "insert", node())
            running.process.send_signal(signal.SIGTERM)
            for edge in (one, other):
                end = the_end(edge)
                assert end.rcvd is not None
                assert (end.rcvd.code, end.rcvd.reason) == (1001, "cloudcore is stopping")
        running.process.communicate(timeout=PATIENCE)
        assert running.process.returncode == 0
    finally:
        if running.process.poll() is None:
            running.end(signal.SIGKILL)


def test_meanwhile_it_is_not_ready_and_takes_no_other_nodes(tmp_path: Path) -> None:
    with Stub(tmp_path, metrics_address="127.0.0.1") as stub, stub.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        health = urlsplit(stub.core.urls[-1]).netloc
        with draining(stub.core):
            the_end(edge)
            with closing(HTTPConnection(health, timeout=PATIENCE)) as probe:
                probe.request("GET", "/readyz")
                response = probe.getresponse()
                assert (response.status, b"cloudcore is stopping" in response.read()) == (503, True)
            with pytest.raises(OSError, match="refused"), stub.edge("n2"):
                pass


def test_acknowledgements_of_the_last_moment_are_stored(tmp_path: Path) -> None:
    """Acknowledgements are collected for a moment; the end does not wait for that."""
    database = str(tmp_path / "cloud.db")
    with Stub(tmp_path, database=database) as stub, stub.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        stub.client.run(Apply([pod()]))
        message = edge.next()
        while message.route.resource != "default/pod/web":
            message = edge.next()
        edge.acknowledge(message)
        edge.ask("null/node/n1", "query")
        with draining(stub.core):
            the_end(edge)
    assert acknowledged(database, "n1") == 1
