"""`edgecore top --live` and a node that runs: what is on the screen, closer looks, and the node's restart."""

import asyncio
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from time import monotonic

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.config import load
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.top.node_view import SocketView
from modules.processes.edgecore.top.run import Poller, SnapshotTaken, TopApp
from modules.processes.edgecore.top.text_screen import TextLog
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, is_ready, pod, restarts_of
from tests.end_to_end.processes import REPOSITORY
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine with a running pod and a failing one."""
    with closing(Machine(EmbeddedUnderTest())) as made:
        made.start()
        made.cloud.apply(pod("web", container(f"echo hello from web; {RUN}")), pod("crasher", container("exit 3")))
        made.cloud.pods.wait("web", is_ready)
        made.cloud.pods.wait("crasher", lambda obj: restarts_of(obj) >= 1)
        yield made


class Watcher:
    """Somebody before the screen."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self._app = app
        self.pilot = pilot

    async def sees(self, *words: str, again: str = "") -> None:
        """Returns when all words are on the screen; `again` is the key that has its text made again."""
        deadline = monotonic() + PATIENCE
        while missing := [word for word in words if word not in (text := self.text())]:
            assert monotonic() < deadline, f"{missing} not in\n{text}"
            if again and "asking …" not in text:
                await self.pilot.press(again)
            await self.pilot.pause(0.02)

    def text(self) -> str:
        """The texts of the screen in front."""
        screen = self._app.screen
        parts = [str(part.content) for part in screen.query(Static)]
        parts += [line for log in screen.query(TextLog) for line in log.lines]
        for table in screen.query(DataTable):
            parts += [" ".join(map(str, table.get_row_at(row))) for row in range(table.row_count)]
        return "\n".join(parts)


def watch(machine: Machine, scenario: Callable[[Watcher], Awaitable[None]]) -> None:
    """Looks at the node of a machine over its socket, twenty times a second."""
    view = SocketView(NodeClient(socket_path(load(machine.edge.file).config)))
    app = TopApp(view)
    with stopping(Poller(view, 0.05, lambda look: app.post_message(SnapshotTaken(look)))) as poller:

        async def watched() -> None:
            async with app.run_test(size=(160, 50)) as pilot:
                poller.start()
                await scenario(Watcher(app, pilot))

        asyncio.run(watched())


def test_a_node_its_pods_and_its_restart(machine: Machine) -> None:
    async def scenario(watcher: Watcher) -> None:
        press = watcher.pilot.press
        await watcher.sees("default/web", "Running", "edge-1", "● Ready", "● connected", "default/crasher")
        await watcher.sees("CrashLoopBackOff", "back-off", "in ")
        await press("j", "l")
        await watcher.sees("log of default/web app", "hello from web")
        await press("q", "x")
        await watcher.sees("pod default/web: running", "start_container")
        await press("q", "e")
        await watcher.sees("REASON", "Started", again="r")  # events are stored after statuses
        await press("q", "d")
        await watcher.sees("hello from web; ")
        await press("q")
        machine.edge.kill()
        await watcher.sees("edgecore is not running (since ")
        machine.edge.run()
        await watcher.sees("● Ready", "● connected", "default/web", "Running")

    watch(machine, scenario)
    assert not [file for file in (machine.edge.root / "edged" / "traces").iterdir() if "asked" in file.name]


@pytest.mark.slow
def test_the_command_in_a_terminal(machine: Machine) -> None:
    """The whole program: it draws the pods, and goes with `q`, leaving the terminal as it was."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(terminal)
    command = ["top", "--live", "--config", str(machine.edge.file), "--interval", "0.2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "modules.processes.edgecore", *command], cwd=REPOSITORY,
        env={**os.environ, "TERM": "xterm-256color"}, stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    drawn = b""
    try:
        drawn = read_until(controller, lambda text: b"default/web" in text and b"CrashLoopBackOff" in text)
        os.write(controller, b"q")
        read_until(controller, lambda _: process.poll() is not None)
        assert process.wait(PATIENCE) == 0
        assert termios.tcgetattr(terminal) == before
    finally:
        process.kill()
        process.wait()
        os.close(controller)
        os.close(terminal)
    assert b"edge-1" in drawn


def read_until(controller: int, enough: Callable[[bytes], bool]) -> bytes:
    """What is drawn until it is enough."""
    text, deadline = b"", monotonic() + PATIENCE
    while not enough(text):
        assert monotonic() < deadline, text[-4000:]
        if select.select([controller], [], [], 0.05)[0]:
            text += os.read(controller, 65536)
    return text
