"""A CNI plug-in that hangs holds up neither its callers beyond their deadlines nor the stop of the runtime."""

import json
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from edged.cri import CriError
from edged.cri.client import CriClient
from edged.cri.errors import ConnectionClosedError
from modules.runtimes.cri_server.local_calls import LocalCallError
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.plugin import PluginRunner
from modules.runtimes.oci.network.pod_network import PodNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import script
from tests.modules.runtimes.oci.node import OciNode
from tests.modules.runtimes.oci.served import settings_of
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, wait_for_death

_RESULT = '{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.7/24"}]}'
_HANGS = """
echo $$ >> "{pids}"
exec cat "{never}"
"""
_LONGER_THAN_ANY_TEST = 3600.0
_RUN = "/runtime.v1.RuntimeService/RunPodSandbox"
_WORKS = f"""[ "$CNI_COMMAND" = ADD ] && echo '{_RESULT}'; true"""


class _Node(OciNode):
    """A node whose pods are attached by a script; `hangs` reads from a pipe that nobody writes."""

    def new_runtime(self) -> CriServer:
        return CriServer(self.state, self.socket, self.clock, self._settings())

    def _settings(self) -> OciSettings:
        runner = PluginRunner(self.clock, _LONGER_THAN_ANY_TEST)
        network = PodNetwork(self.directory / "net.d", [self.directory / "bin"], self.clock, runner=runner)
        return msgspec.structs.replace(settings_of(self.state, self.clock), network=network)

    def start_again(self) -> None:
        """Start a runtime on the same directory."""
        self.runtime = self.new_runtime()
        self.runtime.start()
        self.connect()

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        super().complete_pod(config)
        config.linux.security_context.namespace_options.network = cri.POD

    def install(self, text: str) -> None:
        """Install the plug-in."""
        configurations = self.directory / "net.d"
        configurations.mkdir(exist_ok=True)
        content = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "plugin"}]}
        (configurations / "10.conflist").write_text(json.dumps(content))
        script(self.directory / "bin", "plugin", text)

    def purge(self) -> None:
        self.install(_WORKS)
        purge(self.state, self.clock, self._settings())


@pytest.fixture
def node(node_root: Path) -> Iterator[_Node]:
    """A node whose plug-in hangs, and says that it was started by a line in the pipe `pids`."""
    os.mkfifo(node_root / "never")
    os.mkfifo(node_root / "pids")
    with _Node(node_root) as made:
        made.install(_HANGS.format(never=node_root / "never", pids=node_root / "pids"))
        yield made


def _pod(name: str) -> cri.PodSandboxConfig:
    return cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name=name, uid=name, namespace="default"))


def _line(pipe: int) -> str:
    """What a plug-in says as it starts."""
    assert select.select([pipe], [], [], DEADLINE_SECONDS)[0], "the plug-in was not started"
    return os.read(pipe, 64).decode().split()[0]


def _hanging_call(client: CriClient, name: str) -> tuple[threading.Thread, list[CriError]]:
    errors: list[CriError] = []

    def call() -> None:
        try:
            client.run_pod_sandbox(_pod(name))
        except CriError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, errors


def test_callers_and_the_stop(node: _Node) -> None:
    """A call ends at its deadline, another with its client, and the stop kills the plug-ins; nothing of them is left
    after the next start, and pods can be made again.
    """
    local = node.runtime.local_calls
    client = CriClient(node.runtime.endpoint, request_timeout=300, local=local)
    pipe = os.open(node.directory / "pids", os.O_RDWR)
    try:
        with pytest.raises(LocalCallError, match=r"no answer within 0\.2 s") as late:
            local[_RUN](cri.RunPodSandboxRequest(config=_pod("one")), timeout=0.2)
        assert late.value.code().name == "DEADLINE_EXCEEDED"
        plugins = [_line(pipe)]
        thread, errors = _hanging_call(client, "two")
        plugins.append(_line(pipe))
        assert len(client.list_pod_sandboxes()) == 2
        client.close()
        thread.join(DEADLINE_SECONDS)
        assert [type(each) for each in errors] == [ConnectionClosedError]
    finally:
        os.close(pipe)
        client.close()
    node.runtime.stop()
    for each in plugins:
        wait_for_death(int(each))
    node.install(_WORKS)
    node.start_again()
    left = list(node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items)
    assert {each.state for each in left} <= {cri.SANDBOX_NOTREADY}
    for each in left:
        node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=each.id))
    assert node.pod()
