"""The container runtime that a configuration selects, before it is started."""

from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.processes.edgecore.config import ConfigError, loads
from modules.processes.edgecore.container_runtime import container_runtime, docker_settings, runtime_settings
from modules.runtimes.docker.driver import DockerSettings

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


def test_pods_get_the_addresses_that_are_configured(tmp_path: Path) -> None:
    """On edgecore's own network; without a value the usual ones. A wrong one is refused with the reason."""
    text, clock = _CONFIG.format(root=tmp_path), RealClock()
    try:
        for line, ranges in (("", ["10.86.0.0/16"]), ("podCIDR: 10.1.0.0/16,fd00::/64", ["10.1.0.0/16", "fd00::/64"])):
            network = docker_settings(loads(f"{text}      {line}\n").config, clock).network
            assert network._default is not None
            ipam = network._default.configuration.plugins[0]["ipam"]
            assert [subnet["subnet"] for (subnet,) in ipam["ranges"]] == ranges
            assert list(network._ranges) == (ranges if line else [])
    finally:
        clock.close()
    with pytest.raises(ConfigError) as refused:
        loads(f"{text}      podCIDR: 10.1.2.3/16\n")
    assert "the range is 10.1.0.0/16" in str(refused.value.problems[0])


def test_docker_is_chosen_by_its_endpoint(tmp_path: Path) -> None:
    """It has a directory and a socket of its own, the configured Docker, and logs as large as edged rotates at."""
    config, clock = loads(_CONFIG.format(root=tmp_path)).config, RealClock()
    try:
        runtime = container_runtime(config, clock)
        settings = runtime_settings(config, clock)
    finally:
        clock.close()
    assert runtime.endpoint == config.runtime_endpoint == f"unix://{tmp_path}/docker.sock"
    assert config.container_runtime_root == tmp_path / "docker"
    assert isinstance(settings, DockerSettings)
    assert (settings.socket, settings.logs.size) == (Path("/run/other.sock"), 3 << 20)
