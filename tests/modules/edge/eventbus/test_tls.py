"""A broker with TLS that wants a certificate, and a broker that is not the one it says it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from beehive import RealClock
from beehive.sockets.tls import TlsFiles
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.session import BrokerSettings, MqttSession
from tests.edgehub.certificates.authority import Authority, key_pem, name
from tests.modules.edge.eventbus.broker import Broker, needs_mosquitto
from tests.support.descriptors import open_descriptors

pytestmark = needs_mosquitto


class Events:
    """Closes the session when it is accepted."""

    def __init__(self, session: MqttSession) -> None:
        self.accepted = False
        self._session = session

    def connected(self) -> None:
        self.accepted = True
        self._session.close()

    def received(self, messages: list[Received]) -> None:
        """Nothing comes."""

    def published(self, numbers: list[int]) -> None:
        """Nothing is published."""


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def broker(tmp_path: Path, authority: Authority) -> Iterator[Broker]:
    directory = tmp_path / "broker"
    directory.mkdir()
    authority.server_context(directory)
    (directory / "ca.pem").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    files = (f"cafile {directory}/ca.pem", f"certfile {directory}/server.pem", f"keyfile {directory}/server.pem")
    made = Broker(directory, *files, "require_certificate true").start()
    yield made
    made.stop()


def _files(directory: Path, authority: Authority) -> TlsFiles:
    """Files of a node with a certificate of an authority, which is also whom it trusts."""
    directory.mkdir()
    files = TlsFiles(directory / "ca.pem", directory / "node.pem", directory / "node.key")
    key = ec.generate_private_key(ec.SECP256R1())
    issued = authority.sign(key.public_key(), name("system:node:n1", "system:nodes"))
    files.authority.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    files.certificate.write_bytes(issued.public_bytes(Encoding.PEM))
    files.key.write_bytes(key_pem(key))
    return files


def _run(port: int, files: TlsFiles) -> tuple[bool, str]:
    session = MqttSession(BrokerSettings("127.0.0.1", port, "n1", tls=files), ["a"], RealClock())
    events = Events(session)
    why = session.run(events)
    return events.accepted, why


def test_the_broker_is_verified_and_the_node_shows_its_certificate(
    broker: Broker, authority: Authority, tmp_path: Path
) -> None:
    assert _run(broker.port, _files(tmp_path / "node", authority)) == (True, "closed by this node")


def test_a_broker_of_another_authority_is_refused(broker: Broker, tmp_path: Path) -> None:
    """KubeEdge takes any broker under `ssl://` unless TLS is enabled besides. The connection is closed."""
    files, before = _files(tmp_path / "node", Authority()), open_descriptors()
    accepted, why = _run(broker.port, files)
    assert open_descriptors() <= before
    assert not accepted
    assert "certificate" in why.lower()


def test_a_file_that_is_not_there_is_named(broker: Broker, authority: Authority, tmp_path: Path) -> None:
    """KubeEdge's edgecore ends."""
    files = _files(tmp_path / "node", authority)
    files.key.unlink()
    accepted, why = _run(broker.port, files)
    assert not accepted
    assert str(files.key) in why
