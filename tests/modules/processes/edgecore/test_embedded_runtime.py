"""The container runtime that a configuration selects, before it is started."""

from pathlib import Path

from beehive.clock import RealClock
from edged.dockershim.runtime import DockerRuntime
from modules.processes.edgecore.config import loads
from modules.processes.edgecore.embedded_runtime import docker_settings, embedded_runtime

_CONFIG = """\
apiVersion: edgecore.config.kubeedge.io/v1alpha2
kind: EdgeCore
modules:
  edged:
    rootDirectory: {root}
    dockerAddress: unix:///run/other.sock
    tailoredKubeletConfig:
      containerRuntimeEndpoint: embedded://docker
      containerLogMaxSize: 3Mi
"""


def test_docker_is_chosen_by_its_endpoint(tmp_path: Path) -> None:
    """It has a directory and a socket of its own, the configured Docker, and logs as large as edged rotates at."""
    config, clock = loads(_CONFIG.format(root=tmp_path)).config, RealClock()
    try:
        runtime = embedded_runtime(config, clock)
        settings = docker_settings(config, clock)
    finally:
        clock.close()
    assert isinstance(runtime, DockerRuntime)
    assert runtime.endpoint == config.runtime_endpoint == f"unix://{tmp_path}/docker.sock"
    assert config.embedded_runtime_root == tmp_path / "docker"
    assert (settings.socket, settings.logs.size) == (Path("/run/other.sock"), 3 << 20)
