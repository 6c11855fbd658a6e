"""A screen that follows the log of a container."""

import threading
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static

from beehive.printable import printable
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.top.node_view import LogLines, NodeView
from modules.processes.edgecore.top.text_screen import TextLog

MOST_LINES: Final = 10_000
"""Lines that are kept; the oldest go."""

_AHEAD: Final = 4
"""Pieces that may be read before they are shown: a log may grow faster than it can be shown."""

_LOOK_SECONDS: Final = 1.0
"""Seconds after which a reader without room looks whether its log is still wanted."""


class LogScreen(Screen[None]):
    """The screen that follows a log.

    Args:
        view: the node.
        namespace: of the pod.
        pod: name of the pod.
        containers: of the pod; the first one's log is shown at first.
    """

    CSS = """
    .title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    TextLog { background: $background; padding: 0 1; scrollbar-size-horizontal: 1; overflow: auto; }
    TextLog:focus { background-tint: $background 0%; }
    """
    BINDINGS: ClassVar = [
        Binding("c", "next_container", "Next container"),
        Binding("G", "follow", "To the end"),
        Binding("escape,q", "back", "Back", key_display="q"),
    ]

    class Grown(Message):
        """The log has grown, or has ended."""

        def __init__(self, number: int, text: str) -> None:
            super().__init__()
            self.number = number
            self.text = text

    def __init__(self, view: NodeView, namespace: str, pod: str, containers: list[str]) -> None:
        super().__init__()
        self._view = view
        self._namespace = namespace
        self._pod = pod
        self._containers = containers or [""]
        self._place = 0
        self._number = 0
        """Number of the followed log: pieces of an earlier log are no longer shown."""
        self._lines: LogLines | None = None
        self._room = threading.BoundedSemaphore(_AHEAD)

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield Static("", classes="title", markup=False)
        yield TextLog(max_lines=MOST_LINES)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin."""
        self.query_one(TextLog).focus()
        self._begin()

    def on_unmount(self) -> None:
        """End the reading."""
        self._end()

    def action_next_container(self) -> None:
        """Follow the next container's log."""
        self._place = (self._place + 1) % len(self._containers)
        self._begin()

    def action_follow(self) -> None:
        """Go to the end; it stays in sight."""
        self.query_one(TextLog).scroll_end(animate=False)

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()

    def on_log_screen_grown(self, message: Grown) -> None:
        """Show a piece, if the screen is still there."""
        self._room.release()
        for log in self.query(TextLog):
            if message.number == self._number:
                log.add(message.text, follow=True)

    def _begin(self) -> None:
        self._end()
        container = self._containers[self._place]
        more = f" · {self._place + 1} of {len(self._containers)} containers" if len(self._containers) > 1 else ""
        title = f"log of {self._namespace}/{self._pod} {container}{more}"
        self.query_one(".title", Static).update(printable(title))
        self.query_one(TextLog).clear()
        threading.Thread(target=self._run, args=(self._number, container), name="top/log", daemon=True).start()

    def _end(self) -> None:
        self._number += 1
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def _run(self, number: int, container: str) -> None:
        decoder = getincrementaldecoder("utf-8")("replace")
        try:
            lines = self._view.log(self._namespace, self._pod, container)
            if number != self._number:
                lines.close()
                return
            self._lines = lines
            for piece in lines.pieces():
                self._hand_over(number, decoder.decode(piece))
            self._hand_over(number, "— the log has ended —\n")
        except NodeError as error:
            self._hand_over(number, f"— {error} —\n")

    def _hand_over(self, number: int, text: str) -> None:
        """Hand a piece over when there is room, unless its log is no longer followed."""
        while not self._room.acquire(timeout=_LOOK_SECONDS):
            if number != self._number:
                return
        with suppress(RuntimeError):
            self.post_message(self.Grown(number, text))
