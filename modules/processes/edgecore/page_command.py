"""The command `edgecore page`: this node in a browser on this machine, also without a link, until Ctrl-C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.processes.common.page_options import add_page, serve_page
from modules.processes.edgecore.location import add_location

if TYPE_CHECKING:
    import argparse

    from modules.page.own_devices import OwnDevice


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    text = "serve a page that shows this node and says why a pod does not run, for a browser on this machine"
    parser = add_page(commands, text, f"{__name__}:run")
    add_location(parser)
    parser.set_defaults(database=None)


def run(chosen: argparse.Namespace) -> int:
    """Run `edgecore page` until Ctrl-C or SIGTERM."""
    from beehive.clock import RealClock  # noqa: PLC0415 - the command line is quick
    from modules.page.api import About  # noqa: PLC0415
    from modules.page.node_api import STATE_PATH, NodeApi  # noqa: PLC0415
    from modules.page.own_devices import OwnDevices  # noqa: PLC0415
    from modules.page.server import PageServer  # noqa: PLC0415
    from modules.processes.common.version import VERSION  # noqa: PLC0415
    from modules.processes.edgecore.local.node import report_errors, rest_client  # noqa: PLC0415
    from modules.tools.printing.fields import text_at  # noqa: PLC0415

    with report_errors():
        client = rest_client(chosen)
        node = text_at(client.get(STATE_PATH), "node")  # without an edgecore there is an error now, and no page
        clock = RealClock()
        about = About(str(client.address), VERSION, "edgecore", node)
        devices = OwnDevices(lambda: _devices(chosen, node, clock.now_ms()), clock.now)
        status = serve_page(PageServer(NodeApi(client, devices, about, clock), clock, about.program, chosen.port))
        clock.close()
    return status


def _devices(chosen: argparse.Namespace, node: str, now: int) -> list[OwnDevice]:
    from modules.processes.edgecore.device_commands.page_devices import own_devices  # noqa: PLC0415 - as in `run`
    from modules.processes.edgecore.store_commands.database import opened  # noqa: PLC0415

    with opened(chosen) as database:
        return own_devices(database, node, now)
