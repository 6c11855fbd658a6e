"""`edgecore exec` and `edgecore attach`: the streams of a process in a container, on this terminal.

The exit status is the command's own. With `-t` the terminal is put into raw mode, so that every key goes to the
container, and told its size whenever that changes.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.local.channels import Channel
from modules.edgecore.local.conversation import Conversation
from modules.edgecore.local.node import NodeError, node_of, said, say, url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_INPUT, _OUTPUT, _ERROR = 0, 1, 2


def execute(chosen: argparse.Namespace) -> int:
    """Runs a command."""
    return _converse(chosen, "exec", [("command", word) for word in chosen.words])


def attach(chosen: argparse.Namespace) -> int:
    """Joins the container's own process."""
    return _converse(chosen, "attach", [])


def _converse(chosen: argparse.Namespace, what: str, query: list[tuple[str, str]]) -> int:
    with said(), ExitStack() as stack:
        if chosen.tty and not os.isatty(_INPUT if chosen.stdin else _OUTPUT):
            raise NodeError("-t needs a terminal", hint="leave it out when input or output is a file or a pipe")
        node = node_of(chosen)
        container = node.container(chosen.pod, chosen.container)
        query += [("input", "1")] * chosen.stdin + [("output", "1")]
        query += [("tty", "1") if chosen.tty else ("error", "1")]
        target = url(what, *chosen.pod, container, query=query)
        talk = Conversation(node.path, target, _write, _INPUT if chosen.stdin else None)
        stack.callback(talk.close)
        talk.open()
        if chosen.tty:
            stack.enter_context(_raw())
            result = talk.run(stack.enter_context(_size_changes()), _size)
        else:
            result = talk.run()
    if result.problem:
        say(f"error: {result.problem}")
    return result.code if not result.problem else ExitCode.REFUSED


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
    """The terminal passes every key on; afterwards it is as before."""
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
    """A descriptor that can be read whenever the terminal has got another size."""
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
