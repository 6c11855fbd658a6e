"""A screen with a text that is read, or made, on a thread."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Log, Static

from beehive.printable import printable, printable_lines
from modules.processes.common.pod_commands.errors import NodeError


class TextLog(Log):
    """Lines that can be scrolled, with a pager's keys."""

    BINDINGS: ClassVar = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("space", "page_down", show=False),
        Binding("b", "page_up", show=False),
    ]

    def add(self, text: str, *, follow: bool) -> None:
        """Add text, made harmless; with `follow` the end stays in sight if it is."""
        self.write(printable_lines(text.expandtabs()), scroll_end=follow and self.is_vertical_scroll_end)


class TextScreen(Screen[None]):
    """The screen that shows a text.

    Args:
        title: one line.
        load: returns the text, on a thread; may raise NodeError.
    """

    CSS = """
    .title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    TextLog { background: $background; padding: 0 1; scrollbar-size-horizontal: 1; overflow: auto; }
    TextLog:focus { background-tint: $background 0%; }
    """
    BINDINGS: ClassVar = [
        Binding("r", "reload", "Again"),
        Binding("escape,q", "back", "Back", key_display="q"),
    ]

    class Loaded(Message):
        """The text has come."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, title: str, load: Callable[[], str]) -> None:
        super().__init__()
        self._headline = title
        self._load = load

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield Static(printable(self._headline), classes="title", markup=False)
        yield TextLog()
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Have the text made."""
        self.query_one(TextLog).focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Have the text made again."""
        log = self.query_one(TextLog)
        log.clear()
        log.add("asking …", follow=False)
        threading.Thread(target=self._run, name="top/text", daemon=True).start()

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()

    def on_text_screen_loaded(self, message: Loaded) -> None:
        """Show the text, if the screen is still there."""
        for log in self.query(TextLog):
            log.clear()
            log.add(message.text, follow=False)

    def _run(self) -> None:
        try:
            text = self._load()
        except NodeError as error:
            text = f"error: {error}"
        with suppress(RuntimeError):
            self.post_message(self.Loaded(text))
