"""The application of `edgecore top --live`, and its run against a node."""

import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, ClassVar, Final

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.top.look import NodeSnapshot, Unreachable
from modules.processes.edgecore.top.node_view import NodeView, SocketView
from modules.processes.edgecore.top.pods_screen import PodsScreen
from modules.processes.edgecore.top.themes import DARK, LIGHT


class Poller:
    """A poller that passes a look on immediately, and then at an interval; it rests as long as the last look took, if
    that is longer.

    The thread is outside of the actor model, as the threads of the local server: it blocks in a read, and ends with the
    process.

    Args:
        view: the node.
        interval: in seconds.
        looked: takes the looks, on the thread.
    """

    def __init__(self, view: NodeView, interval: float, looked: Callable[[NodeSnapshot | Unreachable], object]) -> None:
        self._view = view
        self._interval = interval
        self._looked = looked
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="top/poller", daemon=True).start()

    def stop(self) -> None:
        """Pass on no more looks."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            look = self._view.snapshot()
            if self._stopped.is_set():
                return
            self._looked(look)
            self._stopped.wait(self._interval)


class SnapshotTaken(Message):
    """A look at the node."""

    def __init__(self, look: NodeSnapshot | Unreachable) -> None:
        super().__init__()
        self.look = look


class TopApp(App[None]):
    """The whole view.

    Looks come as `SnapshotTaken` messages, so that who looks may be a thread, or a test.

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

    def on_snapshot_taken(self, message: SnapshotTaken) -> None:
        """Show a look at the node, or for how long there has been none."""
        if isinstance(message.look, NodeSnapshot):
            self._gone_at = None
            self.screen_of_pods.show_snapshot(message.look)
        else:
            now = self._clock()
            self._gone_at = now if self._gone_at is None else self._gone_at
            self.screen_of_pods.show_gone(message.look, now - self._gone_at)

    def action_light_or_dark(self) -> None:
        """Change between light and dark."""
        self.theme = DARK.name if self.theme == LIGHT.name else LIGHT.name
        self.screen_of_pods.show_again()


def run_app(node: NodeClient, interval: float, *, light: bool) -> int:
    """Show the node until the user ends the view; return the exit status."""
    view = SocketView(node)
    pollers: list[Poller] = []

    def started(app: TopApp) -> None:
        pollers.append(Poller(view, interval, lambda look: app.post_message(SnapshotTaken(look))))
        pollers[0].start()

    app = TopApp(view, light=light, started=started)
    try:
        app.run()
    finally:
        for poller in pollers:
            poller.stop()
    return int(app.return_code or ExitCode.OK)
