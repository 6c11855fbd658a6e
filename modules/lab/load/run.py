"""A load that is kept up: stand-ins join, renew their leases, and report statuses, with faults among them."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Final, NamedTuple

from websockets.exceptions import ConnectionClosed

from modules.lab.load.objects import LABEL, NAMESPACE
from modules.lab.load.stand_in import Address, StandIn, StatusRefusedError

_DIALLING: Final = 64
_LEASE_SECONDS: Final = 10.0
_ROUND_SECONDS: Final = 10.0
"""Seconds between two lines of figures."""
_BROKEN: Final = (OSError, ConnectionClosed)
"""Errors of a request whose connection has ended."""


class LoadPlan(NamedTuple):
    """Size and course of a load."""

    pods: int
    """Of each node."""
    every: float
    """Seconds between two statuses of a pod."""
    cut: float = 0.0
    """Seconds between two broken links; 0: none is broken."""
    silent: int = 0
    """Nodes that say nothing once they are there."""


class Crowd:
    """Stand-ins of nodes, and what they have measured.

    Args:
        plan: what they do.
        nodes: their names.
        address: where they connect.
        contexts: the TLS context of each; None: TCP.
        say: prints a line.
    """

    def __init__(
        self,
        plan: LoadPlan,
        nodes: Sequence[str],
        address: Address,
        contexts: Sequence[ssl.SSLContext | None],
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._say = say
        dialling = asyncio.Semaphore(_DIALLING)
        self.nodes = [
            StandIn(name, address, plan.pods, dialling, context, is_whole=True, mark=LABEL)
            for name, context in zip(nodes, contexts, strict=True)
        ]
        self._seconds: list[float] = []
        """Until the answer, of the statuses since the last figures."""
        self._refusals: list[str] = []
        """Of statuses since the last figures."""
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, make_pods: Callable[[], None]) -> None:
        """Let all join, have their pods made by a call that blocks, and wait until each has its pods."""
        begin = time.monotonic()
        await asyncio.gather(*(node.join() for node in self.nodes))
        self._say(f"{len(self.nodes)} nodes have registered after {time.monotonic() - begin:.1f} s")
        if self._plan.pods:
            begin = time.monotonic()
            await asyncio.to_thread(make_pods)
            await asyncio.gather(*(node.has_pods.wait() for node in self.nodes))
            count = self._plan.pods * len(self.nodes)
            self._say(f"{count} pods are on their nodes after {time.monotonic() - begin:.1f} s")

    async def keep_up(self, ended: asyncio.Event, seconds: float | None) -> None:
        """Report, with faults, until the event or for so many seconds."""
        for node in self.nodes[: self._plan.silent]:
            node.is_silent = True
        speaking = self.nodes[self._plan.silent :]
        self._tasks = [asyncio.create_task(_renewing(node)) for node in speaking]
        self._tasks += [
            asyncio.create_task(self._reporting(node, pod))
            for node in speaking
            for pod in list(node.pods)
            if pod.startswith(f"{NAMESPACE}/")
        ]
        self._tasks.append(asyncio.create_task(self._counting()))
        if self._plan.cut and speaking:
            self._tasks.append(asyncio.create_task(_cutting(speaking, self._plan.cut)))
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), seconds)
        self._say(self.figures(seconds or _ROUND_SECONDS))

    async def end(self) -> None:
        """End all stand-ins."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(node.leave() for node in self.nodes if node.has_joined), return_exceptions=True)

    def figures(self, seconds: float) -> str:
        """Return a line about the last statuses, and forget them."""
        took, self._seconds = self._seconds, []
        refusals, self._refusals = self._refusals, []
        ended, refused = (sum(getattr(node, name) for node in self.nodes) for name in ("ended", "refused"))
        line = f"{len(took)} statuses, {len(took) / seconds:.0f} a second"
        if len(took) > 1:
            line += f", answered in {median(took) * 1000:.0f} ms (95 %: {quantiles(took, n=20)[-1] * 1000:.0f} ms)"
        if refusals:
            line += f", {len(refusals)} refused, the last: {refusals[-1]}"
        return f"{line}; {ended} links ended, {refused} were refused"

    async def _counting(self) -> None:
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            self._say(self.figures(_ROUND_SECONDS))

    async def _reporting(self, node: StandIn, pod: str) -> None:
        name = pod.removeprefix(f"{NAMESPACE}/")
        await asyncio.sleep(random.uniform(0.0, self._plan.every))  # noqa: S311 - spreads the load
        while pod in node.pods:
            try:
                self._seconds.append(await node.report_ready(NAMESPACE, name))
            except StatusRefusedError as error:
                self._refusals.append(str(error))
            except _BROKEN:
                pass  # it is connected again soon
            await asyncio.sleep(self._plan.every)


async def _renewing(node: StandIn) -> None:
    await asyncio.sleep(random.uniform(0.0, _LEASE_SECONDS))  # noqa: S311 - spreads the load
    while True:
        with suppress(*_BROKEN):
            await node.renew_lease(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        await asyncio.sleep(_LEASE_SECONDS)


async def _cutting(nodes: Sequence[StandIn], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        random.choice(nodes).cut()  # noqa: S311 - a fault
