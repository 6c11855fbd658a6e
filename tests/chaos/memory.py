"""The memory of an edgecore whose configmaps change all the time: idle, at most, and afterwards.

Each burst changes all configmaps together. Pods mount them, so that each change passes the link, the store, edged and
the files. Meanwhile the link fails. The agent and the cloud are processes, as in the end-to-end tests. A run of an
hour: `make chaos ARGS='--cuts 0 --kills 0 --cloud-kills 0 --memory 3600'`.
"""

import random
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from beehive.clock import RealClock
from modules.apimachinery.kinds import JsonObject
from tests.chaos import campaign
from tests.chaos.proxy import Proxy
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest

CONFIGMAPS: Final = 300
BYTES: Final = 30_000
PODS: Final = 6
PERIOD: Final = 2.0
"""Seconds between two bursts."""
MOST: Final = 120.0
"""Upper limit of the agent's memory in megabytes."""
BACK: Final = 15.0
"""Upper limit of the memory afterwards, in megabytes above idle."""
_TO_REST: Final = 15.0
"""Seconds after which the agent is idle once its pods run."""
_TIMEOUT: Final = 120.0
_never: Final = threading.Event()


class Result(NamedTuple):
    """Resident memory in megabytes, and the number of bursts."""

    idle: float
    most: float
    afterwards: float
    bursts: int

    def __str__(self) -> str:
        return (
            f"resident memory {self.idle:.1f} MB idle with {PODS} pods, {self.most:.1f} MB at most in {self.bursts}"
            f" bursts of {CONFIGMAPS} configmaps of {BYTES // 1000} kB, {self.afterwards:.1f} MB afterwards"
        )

    def check(self) -> None:
        """Assert that the memory stayed within its limits, also afterwards."""
        assert self.most <= MOST, f"more than {MOST:g} MB: {self}"
        assert self.afterwards <= self.idle + BACK, f"more than {BACK:g} MB were not given back: {self}"


def run(seed: int, seconds: float, rest: float, *, pause: float = 20.0) -> Result:
    """Change configmaps for some time, then let the agent rest.

    Args:
        seed: of the link's failures.
        seconds: duration of the changes.
        rest: seconds after them.
        pause: seconds between two failures, about.

    Raises:
        AssertionError: the last change did not reach the pods.
    """
    with ExitStack() as stack:
        clock = RealClock()
        stack.callback(clock.close)
        machine = Machine(EmbeddedUnderTest())
        stack.callback(machine.close)
        machine.cloud.start()
        host, port = machine.cloud.address.split(":")
        proxy = stack.enter_context(Proxy(host, int(port)))
        machine.edge.start(f"127.0.0.1:{proxy.port}")
        machine.cloud.mirror("Node").wait(NODE, lambda _node: True)
        return _Run(machine, proxy, clock, random.Random(f"{seed} memory"), pause).run(seconds, rest)  # noqa: S311


class _Run(NamedTuple):
    machine: Machine
    proxy: Proxy
    clock: RealClock
    draw: random.Random
    pause: float

    def run(self, seconds: float, rest: float) -> Result:
        """See `run`."""
        machine, process = self.machine, self.machine.edge.process.pid
        machine.cloud.apply(*_configmaps(0, 1), *(_pod(number) for number in range(PODS)))
        for number in range(PODS):
            machine.cloud.pods.wait(f"pod-{number}", is_ready)
        _never.wait(_TO_REST)
        idle = _megabytes(process, "VmRSS")
        burst = self._change(seconds)
        wait_until(lambda: all(_has(machine, burst)), f"burst {burst} is in the files of the pods", _TIMEOUT)
        most = _megabytes(process, "VmHWM")
        _never.wait(rest)
        return Result(idle, most, _megabytes(process, "VmRSS"), burst)

    def _change(self, seconds: float) -> int:
        """Change configmaps and let the link fail; return the number of the last burst."""
        clock, burst = self.clock, 0
        until, hurt = clock.monotonic() + seconds, clock.monotonic() + self.pause
        while not burst or clock.monotonic() < until:
            burst += 1
            self.machine.cloud.apply(*_configmaps(burst))
            _never.wait(PERIOD)
            if clock.monotonic() >= hurt:
                campaign.hurt(self.proxy, self.draw)
                hurt = clock.monotonic() + self.pause * self.draw.uniform(0.5, 1.5)
        return burst


def _configmaps(burst: int, size: int = BYTES) -> Iterator[JsonObject]:
    for number in range(CONFIGMAPS):
        text = f"{burst} {number} ".ljust(size, "x")
        yield config_map(f"settings-{number}", **{f"file-{number}": text})


def _mounted(number: int) -> range:
    return range(number, CONFIGMAPS, PODS)


def _pod(number: int) -> JsonObject:
    sources = [{"configMap": {"name": f"settings-{each}"}} for each in _mounted(number)]
    volume: JsonObject = {"name": "v", "projected": {"sources": sources}}
    return pod(f"pod-{number}", container(volumeMounts=[mount("v", "/v")]), volumes=(volume,))


def _has(machine: Machine, burst: int) -> Iterable[bool]:
    for number in range(PODS):
        volume = machine.edge.volume(machine.cloud.get("Pod", f"pod-{number}"), "projected", "v")
        for each in _mounted(number):
            with (volume / f"file-{each}").open() as file:
                yield file.read(20).startswith(f"{burst} {each} ")


def _megabytes(process: int, name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024 / 1e6
