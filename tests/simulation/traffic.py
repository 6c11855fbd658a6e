"""Measures the bytes that an idle node with five pods sends and receives in a day, by resource: `python -m
tests.simulation.traffic`. The bytes are the payload of KubeEdge's protocol, without framing, TLS and TCP.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from edged.settings import EdgedSettings
from edgehub.counters import LinkCounters, Traffic
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaSettings
from modules.lab.simulate import node as simulated
from modules.lab.simulate.plan import Plan, Shape, WorkloadStep
from modules.lab.simulate.run import Simulation
from modules.lab.simulate.world import World
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config_commands import saver
from modules.processes.edgecore.settings import edged_settings, edgehub_settings

DAY: Final = 86400.0
_SETTLED: Final = 900.0
"""Seconds after which all pods run and are reported."""


class Usage(NamedTuple):
    """What a node has sent and got, as of a day."""

    payload: dict[Traffic, float]

    @property
    def megabytes(self) -> float:
        """All of it, in 10^6 bytes."""
        return sum(self.payload.values()) / 1e6


def calm_plan(*, nodes: int, seconds: float, pods: int) -> Plan:
    """A plan without faults, with pods that keep running."""
    steps = [
        WorkloadStep(round(pod * 0.1 + node * 0.01, 3), f"pod-{node}-{pod}", Shape.PLAIN, node)
        for node in range(nodes)
        for pod in range(pods)
    ]
    return Plan(1, nodes, seconds, tuple(sorted(steps, key=lambda step: step.at)), ())


def measured(config: EdgeCoreConfig, hours: float) -> Usage:
    """Let a node idle for hours of virtual time."""
    counters = LinkCounters()
    with tempfile.TemporaryDirectory() as directory, World(1, keep_log=False) as world, _settings(config, counters):
        run = Simulation(world, calm_plan(nodes=1, seconds=0.0, pods=5), Path(directory))
        try:
            run.carry_out()
            for step in run.plan.steps:
                run._change(step)
            world.run_for(_SETTLED)
            before = Counter(counters.payload)
            world.run_for(hours * 3600)
            used = Counter(counters.payload)
        finally:
            run.close()
    used.subtract(before)
    return Usage({what: size * DAY / 3600 / hours for what, size in used.items() if size})


@contextmanager
def _settings(config: EdgeCoreConfig, counters: LinkCounters) -> Iterator[None]:
    """Let the simulated node have what the configuration says of traffic, and count here."""
    wanted, hub = edged_settings(config), edgehub_settings(config)

    def edged(**fields: object) -> EdgedSettings:
        more = {"lease_duration": wanted.lease_duration, "node_report_period": wanted.node_report_period}
        return EdgedSettings(**fields, **more)  # type: ignore[arg-type]

    def meta(data_source: str, *, node: str, **_fields: object) -> MetaSettings:
        return MetaSettings(data_source, report_events=config.modules.edged.report_event, node=node)

    def edgehub(**fields: object) -> EdgeHubSettings:
        return EdgeHubSettings(**fields, heartbeat=hub.heartbeat)  # type: ignore[arg-type]

    with (
        mock.patch.object(simulated, "EdgedSettings", edged),
        mock.patch.object(simulated, "MetaSettings", meta),
        mock.patch.object(simulated, "EdgeHubSettings", edgehub),
        mock.patch("edgehub.install.LinkCounters", lambda _waiting: counters),
    ):
        yield


def main() -> None:
    """Print both tables, as docs/node.md, "Traffic", has them."""
    for name, config in (("default", EdgeCoreConfig.default()), ("saver", saver(EdgeCoreConfig.default()))):
        usage = measured(config, 24.0)
        sys.stdout.write(f"{name}: {usage.megabytes:.2f} MB a day\n")
        for what, size in sorted(usage.payload.items(), key=lambda item: -item[1]):
            sys.stdout.write(f"  {what.direction:8} {what.operation:10} {what.kind:12} {size / 1e6:6.2f} MB\n")


if __name__ == "__main__":
    main()
