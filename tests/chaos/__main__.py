"""`make chaos`: 504 failures of the links of eight nodes, 200 kills of edgecore, 100 of cloudcore, 100 of one of three
cloudcores on PostgreSQL, 50 of three at one cluster and 50 of three at one cluster with their state on PostgreSQL, with
restarts of the API server and of PostgreSQL between them, 1,000 of the OCI runtime at points of its calls and 100 of
conmon, a tenth of that with each other program that it can use (without root: 1,000 of the runtime, slirp4netns, the
holder of the namespaces or all of them, and 100 of conmon), 100 of edgecore whose pods are OCI containers, ten of
edgecore in a minute of 1,000 MQTT messages a second both ways, and 300 configmaps that change for five minutes while
the agent's memory is measured, and five minutes of rest. The invariants are asserted on the way; the results are
printed.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import campaign, kills, memory, mqtt, oci, rootless, several
from tests.chaos.oci_node import with_own_image
from tests.chaos.oci_server import CONMON, KINDS, RUNC
from tests.modules.edge.eventbus.broker import MOSQUITTO
from tests.modules.runtimes.oci.network.machine import PLUGINS
from tests.modules.runtimes.oci.node import node_directory, reason_missing
from tests.support import postgresql
from tests.support.saying import say


def main() -> int:
    """Run the campaigns that the arguments choose; return 1 if nothing was run."""
    parser = argparse.ArgumentParser(description="the link and the processes under load, hurt again and again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuts", type=int, default=63, help="bad things, each to all nodes (default 63)")
    parser.add_argument("--nodes", type=int, default=8, help="nodes that share each of them (default 8)")
    parser.add_argument("--kills", type=int, default=200, help="of edgecore (default 200)")
    parser.add_argument("--cloud-kills", type=int, default=100, help="of cloudcore (default 100)")
    parser.add_argument("--several-kills", type=int, default=100, help="of one of three cloudcores (default 100)")
    parser.add_argument("--oci-kills", type=int, default=1000, help="of the OCI runtime (default 1000)")
    parser.add_argument("--conmon-kills", type=int, default=100, help="of the parents of its containers (default 100)")
    parser.add_argument("--oci-agent-kills", type=int, default=100, help="of edgecore on that runtime (default 100)")
    parser.add_argument("--only", choices=["oci", "several"], help="nothing but the OCI runtime, or several cloudcores")
    parser.add_argument("--mqtt-kills", type=int, default=10, help="of edgecore under MQTT messages (default 10)")
    parser.add_argument("--memory", type=float, default=300.0, help="seconds of changing configmaps (default 300)")
    parser.add_argument("--rest", type=float, default=300.0, help="seconds after which memory is back (default 300)")
    chosen = parser.parse_args()
    if chosen.only:
        chosen.cuts = chosen.kills = chosen.cloud_kills = chosen.mqtt_kills = chosen.memory = 0
    if chosen.only == "oci":
        chosen.several_kills = 0
    if chosen.only == "several":
        chosen.oci_kills = chosen.conmon_kills = chosen.oci_agent_kills = 0
    done = 0
    for result in _results(chosen):
        say(result)
        done += 1
    if not done:
        say("nothing was run")
    return 0 if done else 1


def _results(chosen: argparse.Namespace) -> Iterator[object]:
    if chosen.cuts:
        with tempfile.TemporaryDirectory() as directory:
            yield campaign.run(Path(directory), chosen.seed, chosen.cuts, nodes=chosen.nodes, pause=2.2)
    if chosen.kills:
        yield kills.run(chosen.seed, chosen.kills)
    if chosen.cloud_kills:
        yield kills.run(chosen.seed, chosen.cloud_kills, cloud=True)
    if chosen.several_kills:
        yield from _kill_several(chosen.seed, chosen.several_kills)
    if chosen.oci_kills or chosen.conmon_kills or chosen.oci_agent_kills:
        yield from _kill_oci(chosen.seed, chosen.oci_kills, chosen.conmon_kills, chosen.oci_agent_kills)
    if chosen.mqtt_kills and MOSQUITTO is None:
        say("MQTT: left out: mosquitto is not installed")
    elif chosen.mqtt_kills:
        yield mqtt.run(chosen.seed, chosen.mqtt_kills)
    if chosen.memory:
        result = memory.run(chosen.seed, chosen.memory, chosen.rest)
        yield result
        result.check()


def _kill_several(seed: int, kills: int) -> Iterator[object]:
    for shared in several.Shared:
        missing = "" if shared is several.Shared.CLUSTER else postgresql.missing()
        if missing:
            say(f"three cloudcores {shared.value}: left out: {missing}")
            continue
        result = several.run(seed, kills if shared is several.Shared.POSTGRESQL else kills // 2, shared=shared)
        yield result
        result.check()


def _kill_oci(seed: int, calls: int, conmons: int, agents: int) -> Iterator[object]:
    """As an ordinary user what a node without root consists of. As root with crun and conmon; a tenth of the kills
    with runc. Then whole agents on this runtime.
    """
    if os.geteuid():
        if missing := rootless.reason_missing():
            say(f"OCI runtime: left out: {missing}")
        else:
            yield rootless.run(seed, calls, conmons)
        return
    if missing := reason_missing():
        say(f"OCI runtime: left out: {missing}")
        return
    for kind in KINDS:
        part = 1 if kind == CONMON else 10
        if (calls // part or conmons // part) and (kind != RUNC or shutil.which(RUNC)):
            with node_directory() as directory:
                with_own_image(directory)
                network = (PLUGINS / "bridge").exists()
                yield oci.run(directory, seed, calls // part, conmons // part, network=network, kind=kind)
    if agents:
        yield kills.run(seed, agents, oci=True)


if __name__ == "__main__":
    sys.exit(main())
