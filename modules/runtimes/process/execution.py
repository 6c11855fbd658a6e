"""ExecSync: runs a command beside a container's main process, collects its output and limits its time. And the usage of
containers from /proc: without control groups, a container is its shim's descendants.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from beehive.clock import Clock
from modules.runtimes.engine.command_output import CommandOutput
from modules.runtimes.engine.driver import OnEnd, call_at_end
from modules.runtimes.engine.errors import (
    BadRequestError,
    DeadlinePassedError,
    RunFailedError,
    ShimGoneError,
    TooManyError,
    WrongStateError,
)
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.views import container_stats, cpu_usage, sandbox_stats, value_of
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.shim_client import ShimClient
from modules.runtimes.shim.procfs import ProcessStat, descendants
from modules.runtimes.shim.protocol import Pid, to_memory_file
from protos.cri.v1 import api_pb2 as cri


def execute(
    container: ProcessContainer, request: cri.ExecSyncRequest, on_cancel: OnEnd, clock: Clock
) -> cri.ExecSyncResponse:
    """Run `request.cmd` like the container's main process: same environment, directory, user and mounts.

    Args:
        container: must be running.
        request: `timeout` in seconds, 0: no limit.
        on_cancel: registers a callback for a client that gives up.
        clock: measures the time-out.

    Raises:
        BadRequestError: no command, or a NUL character in it.
        WrongStateError: the container is not running.
        RunFailedError: the command could not be started.
        DeadlinePassedError: it took longer than `timeout`, and was killed.
        TooManyError: this process has no more file descriptors or memory; it keeps nothing of the attempt.
    """
    attempt = f"execute a command in container {container.id}"
    check_command(request.cmd, attempt)
    try:
        with _Command(link_of(container, attempt), list(request.cmd), clock) as command:
            call_at_end(on_cancel, command.output.wake)
            command.output.gather(request.timeout or None)
            answer = command.answer.result(0) if command.answer.done() else None
    except ShimGoneError as error:
        raise WrongStateError(attempt, "the container ended meanwhile") from error
    except OSError as error:
        raise TooManyError(attempt, error.strerror or str(error), "see ulimit -n and the node's memory") from error
    if answer is None:
        raise DeadlinePassedError(attempt, f"it took longer than {request.timeout} s and was killed")
    if "error" in answer:
        raise RunFailedError(attempt, answer["error"])
    return cri.ExecSyncResponse(
        stdout=bytes(command.output.stdout), stderr=bytes(command.output.stderr), exit_code=answer["exit_code"]
    )


def check_command(command: Sequence[str], attempt: str) -> None:
    """Raise BadRequestError for no command, or a NUL character in it."""
    if not command or any("\0" in text for text in command):
        raise BadRequestError(attempt, "the request has no command, or a NUL character in it")


def link_of(container: ProcessContainer, attempt: str) -> ShimClient:
    """Return the connection to the shim of a running container. Raises WrongStateError."""
    if container.link is None or container.state != cri.CONTAINER_RUNNING:
        raise WrongStateError(attempt, "it is not running")
    return container.link


class _Command:
    """One command from request to answer; leaving the context kills a command that has not ended.

    It needs six descriptors to begin, and closes those it has opened when it cannot get the next.
    """

    def __init__(self, link: ShimClient, argv: list[str], clock: Clock) -> None:
        self._link = link
        self._argv = argv
        self._clock = clock

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as kept_open:
            with contextlib.ExitStack() as handed_on:
                self.output = CommandOutput(kept_open, handed_on, self._clock)
                arguments = to_memory_file("arguments", self._argv)
                handed_on.callback(os.close, arguments)
                theirs = [arguments, *self.output.write_ends]
                self._request, self.answer = self._link.begin("exec", theirs)
            self._open = kept_open.pop_all()
        self.answer.add_done_callback(lambda _: self.output.wake())
        return self

    def __exit__(self, *_: object) -> None:
        with self._open, contextlib.suppress(ShimGoneError):
            if not self.answer.done():
                self._link.begin("kill-exec", exec=self._request)


_NANOSECONDS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessesUsage(NamedTuple):
    """Sums over processes. `cpu_ns` includes ended children; `memory` is resident memory, in bytes."""

    cpu_ns: int = 0
    memory: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    processes: int = 0

    def plus(self, other: "ProcessesUsage") -> "ProcessesUsage":
        """Return the sum of both."""
        return ProcessesUsage(*(mine + its for mine, its in zip(self, other, strict=True)))


def measure(container: ProcessContainer, processes: dict[Pid, ProcessStat]) -> ProcessesUsage:
    """Return the usage of the container; zero when it does not run."""
    main = processes.get(Pid(container.run.pid)) if container.run and not container.exit else None
    if main is None:
        return ProcessesUsage()
    shim = processes.get(main.parent)
    found = descendants(main.parent, processes)
    orphans = shim.reaped_ticks if shim else 0
    return ProcessesUsage(
        cpu_ns=(orphans + sum(each.own_ticks + each.reaped_ticks for each in found)) * _NANOSECONDS_PER_TICK,
        memory=sum(each.resident_pages for each in found) * _PAGE,
        page_faults=sum(each.minor_faults for each in found),
        major_page_faults=sum(each.major_faults for each in found),
        processes=len(found),
    )


def container_usage(container: ProcessContainer, usage: ProcessesUsage, now_ns: int) -> cri.ContainerStats:
    """Return one container's usage as a CRI message."""
    return container_stats(container, cpu_usage(now_ns, usage.cpu_ns), _memory(usage, now_ns))


def sandbox_usage(
    sandbox: Sandbox, members: Iterable[tuple[ProcessContainer, ProcessesUsage]], now_ns: int
) -> cri.PodSandboxStats:
    """Return a pod's usage: the sum of its containers, and each of them."""
    members = list(members)
    total = ProcessesUsage()
    for _, usage in members:
        total = total.plus(usage)
    containers = [container_usage(container, usage, now_ns) for container, usage in members]
    return sandbox_stats(sandbox, cpu_usage(now_ns, total.cpu_ns), _memory(total, now_ns), total.processes, containers)


def _memory(usage: ProcessesUsage, now_ns: int) -> cri.MemoryUsage:
    return cri.MemoryUsage(
        timestamp=now_ns,
        working_set_bytes=value_of(usage.memory),
        usage_bytes=value_of(usage.memory),
        rss_bytes=value_of(usage.memory),
        page_faults=value_of(usage.page_faults),
        major_page_faults=value_of(usage.major_page_faults),
    )
