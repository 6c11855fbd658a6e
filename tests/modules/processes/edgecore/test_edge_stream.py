"""`modules.edgeStream` of the configuration file, and the tunnel's TLS."""

import logging
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from beehive import Hive, Threads
from beehive.exposition import CollectorRegistry
from modules.edge.edgestream.module import EdgeStream
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.edge_stream import add_edge_stream, node_dialler, tunnel_headers, tunnel_settings
from tests.edgehub.clouds import LibraryCloud
from tests.edgehub.test_tls import Authority
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgestream.beds import registered
from tests.support.patience import PATIENCE


def configured(root: Path, server: str, node_ip: str = "", cloud: str = "cloud:10000") -> EdgeCoreConfig:
    """A node with the tunnel, its certificates below a directory."""
    config = EdgeCoreConfig.below(root)
    modules = config.modules
    tunnel = replace(modules.edge_stream, enable=True, server=server, read_deadline=7, write_deadline=8)
    edged = replace(modules.edged, hostname_override="n1", node_ip=node_ip)
    hub = replace(modules.edge_hub, websocket=replace(modules.edge_hub.websocket, server=cloud))
    return replace(config, modules=replace(modules, edge_hub=hub, edge_stream=tunnel, edged=edged))


def test_kubeedges_keys(tmp_path: Path) -> None:
    """The deadlines have effect, a server without a scheme has TLS, and the node says KubeEdge's headers."""
    config = configured(tmp_path, "cloud:10004", "192.0.2.7")
    settings = tunnel_settings(config)
    assert settings.url == "wss://cloud:10004/v1/kubeedge/connect"
    assert (settings.handshake_timeout, settings.read_deadline, settings.write_deadline) == (30, 7, 8)
    said = {"SessionHostNameOverride": "n1", "SessionInternalIP": "192.0.2.7", "SessionStreamCredit": "1",
            "SessionStreamLimit": "200"}  # fmt: skip
    assert tunnel_headers(config) == said
    assert tunnel_headers(configured(tmp_path, "cloud:10004"))["SessionInternalIP"]


@pytest.mark.parametrize(
    ("server", "cloud", "scheme"),
    [
        ("cloud:10004", "wss://cloud:10000", "wss"),
        ("cloud:10004", "ws://cloud:10000", "ws"),
        ("wss://cloud:10004", "ws://cloud:10000", "wss"),
        ("ws://cloud:10004", "cloud:10000", "ws"),
    ],
)
def test_without_a_scheme_it_has_tls_as_the_link_has(server: str, cloud: str, scheme: str, tmp_path: Path) -> None:
    """A cloud without TLS has no certificate for either."""
    url = tunnel_settings(configured(tmp_path, server, cloud=cloud)).url
    assert url == f"{scheme}://cloud:10004/v1/kubeedge/connect"


def test_by_default_it_is_off() -> None:
    """As KubeEdge's."""
    assert not EdgeCoreConfig.default().modules.edge_stream.enable


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    """edged does not serve yet: an immediate error."""
    with pytest.raises(FileNotFoundError):
        node_dialler(tmp_path / "edged.sock")()


@pytest.fixture
def hive() -> Iterator[Hive]:
    """A hive that ends with the test."""
    made = Hive(Threads())
    yield made
    made.stop(PATIENCE)
    made.clock.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
@pytest.mark.extended
def test_certificates(tmp_path: Path, hive: Hive, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is dialled before edgehub has fetched a certificate; the cloud sees the node's, and after a renewal the
    new one at the next dial.
    """
    caplog.set_level(logging.WARNING)
    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "/O=KubeEdge/CN=KubeEdge"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    certs = tmp_path / "node" / "certs"

    def install(name: str) -> None:
        certificate, key = authority.issue(name, "/O=system:nodes/CN=system:node:n1")
        certs.mkdir(parents=True, exist_ok=True)
        shutil.copy(key, certs / "server.key")
        shutil.copy(certificate, certs / "server.crt")
        shutil.copy(authority.certificate, certs / "rootCA.crt")

    with LibraryCloud(context) as cloud:
        config = configured(tmp_path / "node", f"127.0.0.1:{cloud.port}")
        add_edge_stream(hive, config, CollectorRegistry())
        hive.start()
        hive.send(EdgeStream.name, registered(hive.clock))
        wait_until(lambda: "a file is missing" in caplog.text, "the first attempt has failed")
        assert cloud.connections.empty()
        serials = []
        for name in ("first", "second"):
            install(name)
            connection = cloud.accept()
            assert connection.request is not None
            assert connection.request.path == "/v1/kubeedge/connect"
            assert connection.request.headers["SessionHostNameOverride"] == "n1"
            assert isinstance(connection.socket, ssl.SSLSocket)
            serials.append((connection.socket.getpeercert() or {})["serialNumber"])
            if name == "first":
                install("second")
            connection.close()
    assert len(set(serials)) == 2
