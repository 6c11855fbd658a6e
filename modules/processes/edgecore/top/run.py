"""Runs the application against a node."""

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.top.app import Looked, TopApp
from modules.processes.edgecore.top.node_view import SocketView
from modules.processes.edgecore.top.poller import Poller


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
