"""The application of `edgecore top --live`."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, ClassVar, Final

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from modules.processes.edgecore.top.look import Look, Unreachable
from modules.processes.edgecore.top.node_view import NodeView
from modules.processes.edgecore.top.pods_screen import PodsScreen
from modules.processes.edgecore.top.themes import DARK, LIGHT


class Looked(Message):
    """A look at the node."""

    def __init__(self, look: Look | Unreachable) -> None:
        super().__init__()
        self.look = look


class TopApp(App[None]):
    """The whole view.

    Looks come as `Looked` messages, so that who looks may be a thread, or a test.

    Args:
        view: the node; asked on threads for logs, stories and events.
        light: whether the terminal is light.
        started: called with the application once it takes looks.
        clock: monotonic seconds.
    """

    ENABLE_COMMAND_PALETTE = False
    TITLE = "edgecore top --live"
    BINDINGS: ClassVar = [
        Binding("t", "light_or_dark", "Light/dark", show=False),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        view: NodeView,
        *,
        light: bool = False,
        started: Callable[["TopApp"], None] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = LIGHT.name if light else DARK.name
        self.screen_of_pods: Final = PodsScreen(view)
        self._started = started
        self._clock = clock
        self._gone_at: float | None = None

    def get_theme_variable_defaults(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the colours that a theme may leave out."""
        return {"border": "#33475b", "border-blurred": "#33475b"}

    def on_mount(self) -> None:
        """Show the pods."""
        self.push_screen(self.screen_of_pods)
        if self._started is not None:
            self._started(self)

    def on_looked(self, message: Looked) -> None:
        """Show a look at the node, or for how long there has been none."""
        if isinstance(message.look, Look):
            self._gone_at = None
            self.screen_of_pods.show_look(message.look)
        else:
            now = self._clock()
            self._gone_at = now if self._gone_at is None else self._gone_at
            self.screen_of_pods.show_gone(message.look, now - self._gone_at)

    def action_light_or_dark(self) -> None:
        """Change between light and dark."""
        self.theme = DARK.name if self.theme == LIGHT.name else LIGHT.name
        self.screen_of_pods.show_again()
