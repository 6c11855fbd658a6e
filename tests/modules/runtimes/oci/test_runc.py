"""runc in the place of crun."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import pytest

from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import refused
from tests.modules.runtimes.oci.node import OciNode, node_directory
from tests.modules.runtimes.oci.served import settings_of
from tests.modules.runtimes.process.node import eventually
from tests.modules.runtimes.stream_client import streaming_session


class _RuncNode(OciNode):
    def _settings(self) -> OciSettings:
        settings = settings_of(self.state, self.clock)
        runc = shutil.which("runc")
        assert runc is not None
        return msgspec.structs.replace(
            settings, programs=msgspec.structs.replace(settings.programs, runtime=Path(runc))
        )

    def new_runtime(self) -> CriServer:
        return CriServer(self.state, self.socket, self.clock, self._settings())

    def purge(self) -> None:
        purge(self.state, self.clock, self._settings())


@pytest.fixture
def runc_node() -> Iterator[OciNode]:
    """A node with runc."""
    if shutil.which("runc") is None:
        pytest.skip("runc is not installed")
    with node_directory() as directory, _RuncNode(directory) as node:
        yield node


def test_a_life_with_runc(runc_node: OciNode) -> None:
    """Output, exit code, commands, restart of edgecore and end are as with crun."""
    node = runc_node
    assert node.run("echo hello") == "hello\n"
    container = node.shell("exec sleep 1000")
    node.restart()
    assert node.execute(container, "echo", "there").stdout == b"there\n"
    node.stop(container, 0)
    assert node.status(container).exit_code == 128 + signal.SIGKILL


def test_terminals(runc_node: OciNode) -> None:
    """A command has one of the client's size, also when that changes, and its exit code comes; a client that goes
    ends its command.
    """
    container = runc_node.shell("exec sleep 1000")

    def url(*command: str) -> str:
        request = cri.ExecRequest(container_id=container, cmd=command, tty=True, stdin=True, stdout=True)
        return str(runc_node.cri.Exec(request).url)

    with streaming_session(url("sh")) as session:
        for size, text in ((b'{"Width":91,"Height":33}\n', b"33 91\r"), (b'{"Width":50,"Height":20}\n', b"20 50\r")):
            session.send(4, size)
            session.send(0, b"until stty size | grep -q '%s'; do :; done; stty size\n" % text[:-1])
            session.until(1, text)
        session.send(0, b"exit 4\n")
        assert session.status()["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]
    with streaming_session(url("nosuch")) as session:
        assert '"nosuch": executable file not found' in session.status()["message"]
    with streaming_session(url("sleep", "4321")):
        eventually(lambda: b"4321" in runc_node.execute(container, "ps").stdout)
    eventually(lambda: b"4321" not in runc_node.execute(container, "ps").stdout)


def test_no_users_of_a_pods_own(runc_node: OciNode) -> None:
    """runc 1.1 cannot, so they are refused, and the runtime's features say so."""
    assert not any(each.features.user_namespaces for each in runc_node.cri.Status(cri.StatusRequest()).runtime_handlers)
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="p", uid="u", namespace="n"))
    user = config.linux.security_context.namespace_options.userns_options
    user.mode = cri.POD
    for mappings in (user.uids, user.gids):
        mappings.add(container_id=0, host_id=100_000, length=65_536)
    error = refused(runc_node.cri.RunPodSandbox, cri.RunPodSandboxRequest(config=config))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "need crun" in str(error.details())
