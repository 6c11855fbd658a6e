"""Runs the application against a node."""

import threading
from collections.abc import Callable

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.top.app import Looked, TopApp
from modules.processes.edgecore.top.look import Look, Unreachable
from modules.processes.edgecore.top.node_view import NodeView, SocketView


class Poller:
    """Passes a look on immediately, and then at an interval; it rests as long as the last look took, if that is longer.

    The thread is outside of the actor model, as the threads of the local server: it blocks in a read, and ends with the
    process.

    Args:
        view: the node.
        interval: in seconds.
        looked: takes the looks, on the thread.
    """

    def __init__(self, view: NodeView, interval: float, looked: Callable[[Look | Unreachable], object]) -> None:
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
            look = self._view.look()
            if self._stopped.is_set():
                return
            self._looked(look)
            self._stopped.wait(self._interval)


def run_app(node: NodeClient, interval: float, *, light: bool) -> int:
    """Show the node until the user ends the view; return the exit status."""
    view = SocketView(node)
    pollers: list[Poller] = []

    def started(app: TopApp) -> None:
        pollers.append(Poller(view, interval, lambda look: app.post_message(Looked(look))))
        pollers[0].start()

    app = TopApp(view, light=light, started=started)
    try:
        app.run()
    finally:
        for poller in pollers:
            poller.stop()
    return int(app.return_code or ExitCode.OK)
