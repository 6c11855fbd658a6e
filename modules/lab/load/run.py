"""A load that is kept up: stand-ins join, renew their leases, and report statuses, with faults among them."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from http import HTTPStatus
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from websockets.exceptions import ConnectionClosed

from modules.cli.errors import UnreachableError
from modules.lab.load.objects import LABEL, NAMESPACE, LoadError
from modules.lab.load.stand_in import Address, LoadRefusedError, StandIn

_DIALLING: Final = 64
_ROUND_SECONDS: Final = 10.0
"""Seconds between two lines of figures."""
_BROKEN: Final = (OSError, ConnectionClosed)
"""Errors of a request whose connection has ended."""
_LOOKS: Final = 5
"""So many looks in a row at which a node is not Ready are a failure of the load."""
_PASSING: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
"""Refusals, beside those from 500 on, after which the same request may succeed, or be of a pod that is deleted."""


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
    renewal: float = 10.0
    """Seconds between two renewals of a Lease."""
    look: float = 60.0
    """Seconds between two looks at which nodes are Ready."""


class Crowd:
    """Stand-ins of nodes, and what they have measured.

    Args:
        plan: what they do.
        nodes: their names.
        address: where they connect.
        contexts: the TLS context of each; None: TCP.
        ready: blocks, and returns the names of the nodes that are Ready.
        say: prints a line.
    """

    def __init__(
        self,
        plan: LoadPlan,
        nodes: Sequence[str],
        address: Address,
        contexts: Sequence[ssl.SSLContext | None],
        ready: Callable[[], set[str]],
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._ready = ready
        self._say = say
        dialling = asyncio.Semaphore(_DIALLING)
        self.nodes = [
            StandIn(name, address, plan.pods, dialling, context, is_whole=True, mark=LABEL)
            for name, context in zip(nodes, contexts, strict=True)
        ]
        self._seconds: list[float] = []
        """Until the answer, of the statuses since the last figures."""
        self._refused = 0
        """Requests since the begin."""
        self._refusal = ""
        """The last one."""
        self._looks = dict.fromkeys(nodes, 0)
        """At how many looks in a row each node was not Ready."""
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []
        for node in self.nodes:
            node.on_failure = self._fail

    async def begin(self, make_pods: Callable[[], None]) -> None:
        """Let all join, have their pods made by a call that blocks, and wait until each has its pods.

        Raises:
            LoadError: the load has failed.
        """
        await self._until_failure(self._begin(make_pods))

    async def _begin(self, make_pods: Callable[[], None]) -> None:
        begin = time.monotonic()
        await asyncio.gather(*map(self._join, self.nodes))
        self._say(f"{len(self.nodes)} nodes have registered after {time.monotonic() - begin:.1f} s")
        self._start(self._looking())
        if self._plan.pods:
            begin = time.monotonic()
            await asyncio.to_thread(make_pods)
            await asyncio.gather(*(node.has_pods.wait() for node in self.nodes))
            count = self._plan.pods * len(self.nodes)
            self._say(f"{count} pods are on their nodes after {time.monotonic() - begin:.1f} s")

    async def _join(self, node: StandIn) -> None:
        await node.join()
        self._start(self._renewing(node))

    async def keep_up(self, ended: asyncio.Event, seconds: float | None) -> None:
        """Report, with faults, until the event or for so many seconds.

        Raises:
            LoadError: the load has failed.
        """
        for node in self.nodes[: self._plan.silent]:
            node.is_silent = True
        speaking = self._speaking()
        for node in speaking:
            for pod in list(node.pods):
                if pod.startswith(f"{NAMESPACE}/"):
                    self._start(self._reporting(node, pod))
        self._start(self._counting())
        if self._plan.cut and speaking:
            self._start(_cutting(speaking, self._plan.cut))
        with suppress(TimeoutError):
            await self._until_failure(asyncio.wait_for(ended.wait(), seconds))
        self._say(self.figures(seconds or _ROUND_SECONDS))
        await self._look()
        if self._refused:
            raise LoadError("the load has failed", self._refusals())

    async def end(self) -> None:
        """End all stand-ins."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(node.leave() for node in self.nodes if node.has_joined), return_exceptions=True)

    def _start(self, course: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(course)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    async def _until_failure(self, course: Coroutine[Any, Any, Any]) -> None:
        """Wait for the end of something, or raise the failure of the load, whichever comes first."""
        task = asyncio.ensure_future(course)
        try:
            await asyncio.wait((task, self._failure), return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                raise self._failure.result()
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _speaking(self) -> list[StandIn]:
        return [node for node in self.nodes if not node.is_silent]

    def figures(self, seconds: float) -> str:
        """Return a line about the last statuses, and forget them."""
        took, self._seconds = self._seconds, []
        ended, refused = (sum(getattr(node, name) for node in self.nodes) for name in ("ended", "refused"))
        line = f"{len(took)} statuses, {len(took) / seconds:.0f} a second"
        if len(took) > 1:
            line += f", answered in {median(took) * 1000:.0f} ms (95 %: {quantiles(took, n=20)[-1] * 1000:.0f} ms)"
        return f"{line}; {ended} links ended, {refused} were refused; {self._refusals()}"

    def _refusals(self) -> str:
        """Return words about the requests that the cloud has refused."""
        text = f"{self._refused} requests refused"
        return f"{text}, the last: {self._refusal}" if self._refusal else text

    def _note(self, error: LoadRefusedError) -> None:
        """Note a refusal of a request; one that the next such request will get, too, ends the load."""
        self._refused += 1
        self._refusal = str(error)
        if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _PASSING:
            raise error

    async def _looking(self) -> None:
        while True:
            await asyncio.sleep(self._plan.look)
            await self._look()

    async def _look(self) -> None:
        """Look at which nodes are Ready. Raises LoadError if one has not been Ready for long."""
        try:
            ready, speaking = await asyncio.to_thread(self._ready), [node.name for node in self._speaking()]
        except UnreachableError as error:  # as while the cloud starts again
            self._say(str(error))
            return
        for name in speaking:
            self._looks[name] = 0 if name in ready else self._looks[name] + 1
        late = [name for name in speaking if self._looks[name]]
        self._say(f"{len(speaking) - len(late)} of {len(speaking)} nodes are Ready")
        lost = [name for name in late if self._looks[name] >= _LOOKS]
        if lost:
            others = f" and {len(lost) - 1} others" if len(lost) > 1 else ""
            why = f"`cloudcore describe node {lost[0]}` has the reason; {self._refusals()}"
            raise LoadError("the load has failed: nodes are not Ready", f"{lost[0]}{others}", why)

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
            except LoadRefusedError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    await asyncio.sleep(self._plan.every)  # until then the node knows of a deletion
                if pod in node.pods:
                    self._note(error)
            except _BROKEN:
                pass  # it is connected again soon
            await asyncio.sleep(self._plan.every)

    async def _renewing(self, node: StandIn) -> None:
        await asyncio.sleep(random.uniform(0.0, self._plan.renewal))  # noqa: S311 - spreads the load
        while not node.is_silent:
            try:
                await node.renew_lease()
            except LoadRefusedError as error:
                self._note(error)
            except _BROKEN:
                pass  # it is connected again soon
            await asyncio.sleep(self._plan.renewal)


async def _cutting(nodes: Sequence[StandIn], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        random.choice(nodes).cut()  # noqa: S311 - a fault
