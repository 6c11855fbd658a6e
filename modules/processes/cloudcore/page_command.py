"""The command `cloudcore page`: a picture of the fleet for a browser on this machine, until Ctrl-C."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from modules.cloud.messages import LinkSession
    from modules.page.picture import Links
    from modules.page.server import PageServer
    from modules.processes.cloudcore.control_client import ControlClient

_HINT: Final = "is `cloudcore run` running, with this --root or --socket?"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    text = "serve a page that shows the fleet and says why a pod does not run, for a browser on this machine"
    parser = commands.add_parser("page", help=text, description=text)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore page`: print an address that can be opened once, and serve until Ctrl-C or SIGTERM."""
    from beehive.clock import RealClock  # noqa: PLC0415 - the command line is quick
    from modules.page.api import About  # noqa: PLC0415
    from modules.page.server import PageServer  # noqa: PLC0415
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415
    from modules.processes.common.shutdown import Shutdown  # noqa: PLC0415
    from modules.processes.common.version import VERSION  # noqa: PLC0415
    from modules.tools.kubectl.rest import RestClient  # noqa: PLC0415

    control = ControlClient(chosen.socket)
    control.cloudcores()  # without a cloudcore there is an error now, and no page
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    clock = RealClock()
    about = About(str(chosen.socket), VERSION, "cloudcore")
    page = PageServer(RestClient(chosen.socket, _HINT), ControlLinks(control), clock, about, chosen.port)
    _print_address(page)
    if sys.stdin is not None and sys.stdin.isatty():
        threading.Thread(target=_print_more, args=(page,), name="page-addresses", daemon=True).start()
    shutdown.wait()
    page.stop()
    clock.close()
    return ExitCode.OK


def _print_address(page: PageServer) -> None:
    another = "Enter prints another, " if sys.stdin is not None and sys.stdin.isatty() else ""
    sys.stdout.write(
        f"{page.address()}\nOpen this address in a browser: once, within a minute. {another}Ctrl-C ends.\n"
    )
    sys.stdout.flush()


def _print_more(page: PageServer) -> None:
    """Print another address for each line of the terminal."""
    for _ in sys.stdin:
        _print_address(page)


class ControlLinks:
    """What cloudcore's control socket says of the links of nodes (`PageSource`)."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    def links(self) -> Links:
        """See `LinkSource`."""
        from modules.page.picture import Links  # noqa: PLC0415 - as in `run`

        found = self._control.connections()
        return Links(
            {each.node: each for each in found.nodes},
            self._control.cloudcores().elsewhere(),
            {each.node: each.why for each in found.refused},
        )

    def sessions(self, since: float) -> list[LinkSession]:
        """See `LinkSource`."""
        from modules.cloud.messages import LinkQuery  # noqa: PLC0415 - as in `run`

        recent = self._control.links(LinkQuery(since=since))
        known = {each.node for each in recent}
        return recent + [each for each in self._control.links(LinkQuery(newest_only=True)) if each.node not in known]

    def history(self, node: str) -> list[LinkSession]:
        """Return the link journal of a node."""
        from modules.cloud.messages import LinkQuery  # noqa: PLC0415 - as in `run`

        return self._control.links(LinkQuery(node))
