"""`cloudcore run` with stream tunnels: in the place of the kubelets of a cluster's nodes, and its options."""

import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority, open_authority
from modules.cloud.cloudstream.errors import StreamServerError
from modules.cloud.cloudstream.opening import NodeStreams
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import CloudCoreConfig, CloudStreamConfig
from modules.processes.cloudcore.process import RunOptions
from modules.processes.cloudcore.stream_parts import stream_listener
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import EdgeCoreConfig
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG
from tests.modules.cloud.cloudstream.edges import Edge, edge_at
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.stubs import CLOCK
from tests.support.patience import PATIENCE

PORT = 10351
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "busybox:1.35"}]},
}


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFiles:
    """The cluster's authority, once it is there."""
    return AuthorityFiles(tmp_path / "tls")


@pytest.fixture
def both(tmp_path: Path, files: AuthorityFiles) -> Iterator[Cluster]:
    def options() -> dict[str, Any]:
        settings = CloudStreamConfig(
            tunnel_port=0,
            stream_port=0,
            advertised_port=PORT,
            tls_stream_ca_file=files.authority,
            tls_stream_cert_file=files.server,
            tls_stream_private_key_file=files.server_key,
        )
        return {"cloud_stream": settings}

    made = Cluster(tmp_path, options)
    yield made
    made.close()


@pytest.fixture
def api_server(both: Cluster, files: AuthorityFiles, tmp_path: Path) -> Iterator[HTTPSConnection]:
    """A connection of the cluster's API server to what it takes for a kubelet."""
    authority = load_authority(files, CLOCK.now())
    pem = tmp_path / "kubelet-client.pem"
    pem.write_bytes(
        b"".join(authority.make_administrator_certificate("kube-apiserver-kubelet-client", CLOCK.now() - OPENSSL_LAG))
    )
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(pem)
    connection = HTTPSConnection("127.0.0.1", both.core.core.stream_port, timeout=PATIENCE, context=context)
    yield connection
    connection.close()


def port_of(both: Cluster) -> object:
    """The kubelet's port in the node's status."""
    (node,) = both.objects("node")
    status = node.get("status") or {}
    return status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")


def answered(edge: Edge, text: bytes) -> str:
    """Let the node answer a request for a log or for metrics; return what it was asked."""
    frame, request = edge.opened()
    edge.send(frame.connection, text)
    edge.end(frame.connection)
    return request.target


def test_a_cluster_reaches_containers_of_its_node(both: Cluster, api_server: HTTPSConnection) -> None:
    """The port is in the node's status, and a log and metrics come from the node, by pod and by address."""
    both.apply(NODE, POD)
    with edge_at(both.core.core.tunnel_port, "n1", address="127.0.0.1") as edge:
        wait_until(lambda: port_of(both) == PORT, "the port is in the node's status")
        for path in ("/containerLogs/default/web/main?tailLines=1", "/metrics/resource"):
            api_server.request("GET", path)
            assert answered(edge, b"one\n") == path
            response = api_server.getresponse()
            assert (response.status, response.read()) == (200, b"one\n")
            api_server.close()


TUNNEL = ("--tunnel-listen", "127.0.0.1:0")
STREAM = (*TUNNEL, "--stream-listen", "127.0.0.1:0")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--stream-listen", "127.0.0.1:10003"), "--tunnel-listen"),
        (STREAM, "--stream-client-ca"),
        ((*STREAM, "--stream-client-ca", "ca.crt"), "is for a cluster's API server"),
        ((*STREAM, "--stream-client-ca", "ca.crt", "--in-cluster"), "--stream-cert"),
        ((*TUNNEL, "--stream-key", "a.key"), "belong together"),
        (("--tunnel-listen", "0.0.0.0:10004"), "can take the tunnel of any node"),
        (("--tunnel-listen", "127.0.0.1"), "an address and a port are wanted"),
    ],
    ids=["no-tunnel", "no-authority", "no-cluster", "no-certificate", "half-a-pair", "exposed", "no-port"],
)
def test_options_that_do_not_fit_name_the_missing_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], hint: str
) -> None:
    """Above all the stream server never serves everybody, as KubeEdge's does."""
    assert main(["run", "--root", str(tmp_path), *options]) == ExitCode.USAGE
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ((), ("127.0.0.1", 10004)),
        (("--tls",), ("127.0.0.1", 10004)),
        (("--listen", "[::1]:10000"), ("::1", 10004)),
        (("--tunnel-listen", "127.0.0.1:7"), ("127.0.0.1", 7)),
        (("--tunnel-listen", ""), None),
        (("--listen", "127.0.0.1:0"), None),
        (("--listen", "0.0.0.0:10000", "--tls"), None),
        (("--listen", "0.0.0.0:10000", "--allow-without-tls"), None),
        (("--kubeconfig", "config"), None),
        (("--in-cluster",), None),
    ],
)
def test_nodes_of_this_machine_have_tunnels_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], served: tuple[str, int] | None
) -> None:
    """Where a node without a configuration file dials them; no port opens that other machines reach."""
    started: list[CloudStreamConfig | None] = []

    def run(options: RunOptions) -> int:
        started.append(options.config.cloud_stream)
        return ExitCode.OK

    monkeypatch.setattr("modules.processes.cloudcore.process.run", run)
    assert main(["run", "--root", str(tmp_path), *options]) == ExitCode.OK
    assert [found and (found.tunnel_address, found.tunnel_port) for found in started] == [served]
    node = EdgeCoreConfig.below(tmp_path).modules.edge_stream
    assert (node.enable, node.server) == (True, "ws://127.0.0.1:10004")


@pytest.mark.parametrize("missing", ["--stream-client-ca", "--stream-cert"])
def test_a_certificate_file_that_cannot_be_used_is_named(tmp_path: Path, missing: str) -> None:
    authority_files = AuthorityFiles(tmp_path / "tls")
    open_authority(authority_files, ["127.0.0.1"], CLOCK.now())
    (tmp_path / "empty").touch()
    settings = CloudStreamConfig(
        stream_port=0,
        tls_stream_ca_file=tmp_path / "none" if missing == "--stream-client-ca" else authority_files.authority,
        tls_stream_cert_file=tmp_path / "empty",
        tls_stream_private_key_file=tmp_path / "empty",
    )
    tunnels = Tunnels(CLOCK)
    with pytest.raises(StreamServerError, match=missing):
        stream_listener(CloudCoreConfig(cloud_stream=settings), tunnels, NodeStreams(tunnels, CLOCK))
