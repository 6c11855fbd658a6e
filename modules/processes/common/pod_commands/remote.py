"""The commands `exec` and `attach`: connect a container's streams with this terminal.

The exit status is the command's own. With `-t` the terminal is in raw mode, so that every key goes to the container,
and its size is sent whenever it changes.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from modules.processes.common.pod_commands.channels import Channel, CommandExit
from modules.processes.common.pod_commands.client import remark, report_errors
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.spdy_link import COMMAND, SizedTerminal, SpdyCommand, SpdyLink
from modules.processes.common.pod_commands.target import container_of, only_word, pod_target

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from modules.processes.common.pod_commands.client import NodeClient

    Output = Callable[[Channel, bytes], None]

_INPUT, _OUTPUT, _ERROR = 0, 1, 2


class ContainerTarget(NamedTuple):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


def execute(chosen: argparse.Namespace) -> int:
    """Run a command."""
    with report_errors(chosen.program):
        _check_terminal(chosen)
        pod, *command = chosen.words or [""]
        if not pod or not command:
            wanted = "a command" if pod else "a pod and a command"
            raise NodeError(f"{wanted} is wanted", hint=f"{chosen.program} exec POD -- COMMAND", usage=True)
        node: NodeClient = chosen.connect(chosen)
        target = _target(node, chosen, pod)
        words = [("command", word) for word in command]
        return _converse(node, chosen, node.stream_url("exec", *target, words + _streams(chosen)))


def attach(chosen: argparse.Namespace) -> int:
    """Attach to the container's process."""
    with report_errors(chosen.program):
        _check_terminal(chosen)
        node: NodeClient = chosen.connect(chosen)
        target = _target(node, chosen, only_word(chosen.words, "pod"))
        return _converse(node, chosen, node.stream_url("attach", *target, _streams(chosen)))


def run_command(
    node: NodeClient, target: ContainerTarget, command: Sequence[str], output: Output, source: int | None = None
) -> CommandExit:
    """Run a command in a container, to its end.

    Args:
        node: the node.
        target: the container.
        command: the command and its arguments.
        output: called with each piece of output and its channel.
        source: descriptor of the command's input, passed on with its end; None: no input.

    Raises:
        NodeError: the command cannot be run.
    """
    words = [("command", word) for word in command]
    streams = [("input", "1")] * (source is not None) + [("output", "1"), ("error", "1")]
    with closing(SpdyLink(node, node.stream_url("exec", *target, words + streams), COMMAND)) as link:
        return SpdyCommand(link, output, source).run()


def _check_terminal(chosen: argparse.Namespace) -> None:
    """Do without a terminal if there is none, as kubectl."""
    if chosen.tty and not os.isatty(_INPUT if chosen.stdin else _OUTPUT):
        chosen.tty = False
        remark("Unable to use a TTY - input or output is not a terminal")


def _target(node: NodeClient, chosen: argparse.Namespace, word: str) -> ContainerTarget:
    target = pod_target(word, chosen.namespace)
    found = container_of(node.pod(target), chosen.container)
    if not chosen.quiet:
        remark(found.remark)
    return ContainerTarget(*target, found.name)


def _streams(chosen: argparse.Namespace) -> list[tuple[str, str]]:
    return [("input", "1")] * chosen.stdin + [("output", "1"), ("tty" if chosen.tty else "error", "1")]


def _converse(node: NodeClient, chosen: argparse.Namespace, target: str) -> int:
    terminal = None
    with ExitStack() as stack:
        link = stack.enter_context(closing(SpdyLink(node, target, COMMAND)))
        if chosen.tty:
            stack.enter_context(_raw())
            terminal = SizedTerminal(stack.enter_context(_size_changes()), _size)
        result = SpdyCommand(link, _write, _INPUT if chosen.stdin else None, terminal).run()
    if result.problem:
        raise NodeError(result.problem)
    return result.code


def _write(channel: Channel, data: bytes) -> None:
    descriptor = _OUTPUT if channel is Channel.STDOUT else _ERROR
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _size() -> tuple[int, int]:
    size = os.get_terminal_size(_INPUT if os.isatty(_INPUT) else _OUTPUT)
    return size.columns, size.lines


@contextmanager
def _raw() -> Iterator[None]:
    """Put the terminal into raw mode, and restore it afterwards."""
    if not os.isatty(_INPUT):
        yield
        return
    before = termios.tcgetattr(_INPUT)
    try:
        tty.setraw(_INPUT, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(_INPUT, termios.TCSADRAIN, before)
        sys.stderr.flush()


@contextmanager
def _size_changes() -> Iterator[int]:
    """Yield a descriptor that becomes readable when the terminal's size has changed."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.signal(signal.SIGWINCH, lambda *_: None)
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGWINCH, before)
        os.close(reading)
        os.close(writing)
