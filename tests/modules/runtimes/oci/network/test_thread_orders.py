"""What holds of the pod network in whatever order its threads run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import modules.runtimes.oci.network.pod_network
import modules.runtimes.oci.network.rule_watch
import modules.runtimes.oci.network.turns
from beehive import Clock
from modules.runtimes.oci.network.firewall import SavedRules
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from modules.runtimes.oci.network.plugin import PluginRunner
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.network.turns import MOST_CHAINS, Turns
from protos.cri.v1 import api_pb2 as cri
from tests.support.directories import short_directory
from tests.support.interleaving import SEEDS, Interleaving, explore

NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": True}}],
}
ADDRESSES = {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/24"}]}


class Plugins(PluginRunner):
    """Plug-ins whose rules are a set, in the place of programs."""

    def __init__(self, threads: Interleaving) -> None:
        super().__init__(threads.clock)
        self.threads = threads
        self.rules: set[str] = set()
        self.under_way: set[str] = set()

    def run(self, program: Path, task: Mapping[str, str], configuration: Mapping[str, Any]) -> dict[str, Any]:
        sandbox = task["CNI_CONTAINERID"]
        assert sandbox not in self.under_way, "two threads run plug-ins for one sandbox"
        self.under_way.add(sandbox)
        assert len(self.under_way) <= MOST_CHAINS
        self.threads.step(f"{task['CNI_COMMAND']} of {program.name}")
        (self.rules.add if task["CNI_COMMAND"] == "ADD" else self.rules.discard)(sandbox)
        self.threads.step(f"the end of {program.name}")
        self.under_way.discard(sandbox)
        return ADDRESSES


class OpenLoopback(LoopbackFirewall):
    """The rule for 127.0.0.0/8 is always there."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)

    def restore(self, read: object) -> bool:
        return False


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sandbox_that_is_detached_has_no_rules(
    seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if its host ports are being restored, since a firewall was reloaded."""
    caplog.set_level("ERROR")
    monkeypatch.setattr(modules.runtimes.oci.network.rule_watch, "read_rules", lambda _program: SavedRules())
    monkeypatch.setattr(modules.runtimes.oci.network.pod_network, "LoopbackFirewall", OpenLoopback)
    monkeypatch.setattr(modules.runtimes.oci.network.pod_network, "check_host_ports", lambda _: None)  # of this machine
    ports = [cri.PortMapping(container_port=80, host_port=8080, protocol=cri.TCP)]
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="pod", uid="uid"), port_mappings=ports)

    with short_directory("net-") as directory:
        for plugin in ("bridge", "portmap"):
            (directory / plugin).touch(mode=0o755)
        (directory / "pods.conflist").write_bytes(msgspec.json.encode(NETWORK))
        netns = directory / "netns"
        netns.touch()

        def scenario(threads: Interleaving) -> None:
            plugins = Plugins(threads)
            network = PodNetwork(directory, [directory], threads.clock, runner=plugins)
            network.attach("sandbox", directory, netns, config)
            threads.run(network.check_rules, lambda: network.detach("sandbox", directory, netns))
            assert not plugins.rules

        explore(scenario, modules.runtimes.oci.network.pod_network, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_sandbox_has_its_turn(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        turns, served = Turns(), list[str]()
        serving: set[str] = set()

        def take(sandbox: str, *, attach: bool) -> None:
            with turns.to_attach(sandbox) if attach else turns.to_detach(sandbox):
                assert sandbox not in serving
                serving.add(sandbox)
                threads.step("a turn")
                assert len(serving) <= MOST_CHAINS
                serving.discard(sandbox)
            served.append(sandbox)

        threads.run(
            *(lambda name=name: take(name, attach=False) for name in ("a", "a", "b", "c")),
            *(lambda name=name: take(name, attach=True) for name in ("a", "d", "e")),
        )
        assert sorted(served) == ["a", "a", "a", "b", "c", "d", "e"]

    explore(scenario, modules.runtimes.oci.network.turns, single=150, seed=seed)
