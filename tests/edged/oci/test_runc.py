"""runc in the place of crun."""

import shutil
import signal
from pathlib import Path

import grpc
import pytest

from edged.oci.engine import OciSettings, purge
from edged.oci.runtime import OciRuntime
from protos.cri.v1 import api_pb2 as cri
from tests.edged.oci.node import OciNode, node_directory, settings_of


class _RuncNode(OciNode):
    def _settings(self) -> OciSettings:
        settings = settings_of(self.state, self.clock)
        runc = shutil.which("runc")
        assert runc is not None
        return settings._replace(programs=settings.programs._replace(runtime=Path(runc)))

    def new_runtime(self) -> OciRuntime:
        return OciRuntime(self.state, self.socket, self.clock, self._settings())

    def purge(self) -> None:
        purge(self.state, self.clock, self._settings())


def test_a_life_with_runc() -> None:
    """Output, exit code, commands, restart of edgecore and end are as with crun."""
    if shutil.which("runc") is None:
        pytest.skip("runc is not installed")
    with node_directory() as directory, _RuncNode(directory) as node:
        assert node.run("echo hello") == "hello\n"
        container = node.shell("exec sleep 1000")
        node.restart()
        assert node.execute(container, "echo", "there").stdout == b"there\n"
        node.stop(container, 0)
        assert node.status(container).exit_code == 128 + signal.SIGKILL


def test_user_namespaces_are_refused_with_runc() -> None:
    """runc 1.1 joins none by its path: the sandbox is refused, not each start of a container; the status says so."""
    if shutil.which("runc") is None:
        pytest.skip("runc is not installed")
    with node_directory() as directory, _RuncNode(directory) as node:
        handlers = node.cri.Status(cri.StatusRequest()).runtime_handlers
        assert not any(each.features.user_namespaces for each in handlers)
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="own", uid="own", namespace="default"))
        user = config.linux.security_context.namespace_options.userns_options
        user.mode = cri.POD
        for each in (user.uids, user.gids):
            each.add(container_id=0, host_id=100_000, length=65_536)
        with pytest.raises(grpc.RpcError, match="they need crun"):
            node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config))
