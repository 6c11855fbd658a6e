"""Failures of the link, drawn from a seed."""

import random
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any, Final, NamedTuple

from tests.chaos.bed import TIMEOUT, bed, cloud
from tests.chaos.proxy import Proxy
from tests.end_to_end.processes import wait_until

KINDS: Final = ("cut", "cut", "half", "outage", "stalled up", "stalled down", "late", "delay", "duplicate")
_never: Final = Event()


class Result(NamedTuple):
    """Result of a campaign whose invariants have held."""

    cuts: int
    """Lost connections of all nodes."""
    messages: int
    repeated: int
    versions: int
    reconnects: list[float]

    def __str__(self) -> str:
        times = sorted(self.reconnects) or [0.0]
        return (
            f"{self.cuts} connections lost; {self.versions} versions of every pod down, {self.messages} messages up "
            f"({self.repeated} came twice), none lost or out of order; reconnected after {median(times):.3f} s "
            f"(median), {times[-1]:.3f} s (worst)"
        )


def run(
    directory: Path, seed: int, cuts: int, *, nodes: int, pause: float, settled: bool = False, **changes: Any
) -> Result:
    """Let the link of nodes under load fail many times.

    Args:
        directory: an empty one.
        seed: of the kinds of failures and their durations.
        cuts: number of failures.
        nodes: number of nodes; they share the proxy and each failure.
        pause: minimum of seconds between two failures; at least one version of the pods comes between them.
        settled: whether all nodes are connected again before each failure.
        changes: of edgehub's settings.

    Raises:
        AssertionError: something was lost, applied twice or out of order, or a node did not come back.
    """
    draw = random.Random(f"{seed} chaos")  # noqa: S311 - reproducible on purpose
    with cloud(directory) as (stub, got):
        host, port = stub.core.address
        with Proxy(host, port) as proxy, bed(directory, stub, got, proxy.port, nodes, **changes) as whole:
            whole.load()
            try:
                for _ in range(cuts):
                    if settled:
                        wait_until(lambda: proxy.nodes == nodes, "all nodes are connected", TIMEOUT)
                    before = whole.versions
                    hurt(proxy, draw)
                    _never.wait(pause * draw.uniform(1.0, 1.5))
                    whole.wait_for_more_than(before)
            finally:
                whole.rest()
            whole.check()
            lost = sum(sum(node.counters.ends.values()) for node in whole.nodes)
            assert lost >= cuts // 2, f"{cuts} failures, but only {lost} connections lost"
            sent = sum(len(ids) for ids in whole.sent.values())
            return Result(lost, sent, whole.repeated, whole.versions, list(proxy.reconnects))


def hurt(proxy: Proxy, draw: random.Random) -> None:
    """Let the connections of a proxy fail once."""
    match draw.choice(KINDS):
        case "cut":
            proxy.cut()
        case "half":
            proxy.half()
        case "outage":
            proxy.outage(draw.uniform(0.0, 0.6))
        case "stalled up":
            proxy.stall("up", draw.uniform(0.05, 0.5), then_cut=True)
        case "stalled down":
            proxy.stall("down", draw.uniform(0.05, 0.5), then_cut=True)
        case "late":
            proxy.stall(draw.choice(("up", "down")), draw.uniform(0.05, 0.5), then_cut=False)
        case "delay":
            proxy.delay(draw.uniform(0.0, 0.1))
        case _:
            proxy.duplicate()
