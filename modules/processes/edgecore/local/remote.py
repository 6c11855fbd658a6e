"""The commands `edgecore exec` and `edgecore attach`: connect a container's streams with this terminal.

The exit status is the command's own. With `-t` the terminal is in raw mode, so that every key goes to the container,
and its size is sent whenever it changes.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from modules.processes.edgecore.local.channels import Channel
from modules.processes.edgecore.local.node import NodeError, node_of, report_errors, url
from modules.processes.edgecore.local.stream_session import StreamSession

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_INPUT, _OUTPUT, _ERROR = 0, 1, 2


def execute(chosen: argparse.Namespace) -> int:
    """Run a command. If the runtime has no streams, a command without input runs to its end before its output is
    printed.
    """
    with report_errors():
        words = [("command", word) for word in chosen.words]
        try:
            return _converse(chosen, "exec", words)
        except NodeError as error:
            if error.status != HTTPStatus.NOT_IMPLEMENTED or chosen.stdin or chosen.tty:
                raise
        return _run_to_its_end(chosen, words)


def attach(chosen: argparse.Namespace) -> int:
    """Attach to the container's process."""
    with report_errors():
        return _converse(chosen, "attach", [])


def _converse(chosen: argparse.Namespace, what: str, query: list[tuple[str, str]]) -> int:
    if chosen.tty and not os.isatty(_INPUT if chosen.stdin else _OUTPUT):
        raise NodeError("-t needs a terminal", hint="leave it out when input or output is a file or a pipe")
    node = node_of(chosen)
    container = node.container(chosen.pod, chosen.container)
    streams = [("input", "1")] * chosen.stdin + [("output", "1"), ("tty" if chosen.tty else "error", "1")]
    target = url(what, *chosen.pod, container, query=query + streams)
    with ExitStack() as stack:
        talk = StreamSession(node.path, target, _write, _INPUT if chosen.stdin else None)
        stack.callback(talk.close)
        talk.open()
        if chosen.tty:
            stack.enter_context(_raw())
            result = talk.run(stack.enter_context(_size_changes()), _size)
        else:
            result = talk.run()
    if result.problem:
        raise NodeError(result.problem)
    return result.code


def _run_to_its_end(chosen: argparse.Namespace, words: list[tuple[str, str]]) -> int:
    node = node_of(chosen)
    result = node.run(url("run", *chosen.pod, node.container(chosen.pod, chosen.container), query=words))
    _write(Channel.STDOUT, result.stdout)
    _write(Channel.STDERR, result.stderr)
    return result.exit_code


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
