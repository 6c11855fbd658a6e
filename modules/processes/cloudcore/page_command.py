"""The command `cloudcore page`: a picture of the fleet for a browser on this machine, until Ctrl-C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.page_options import add_page, serve_page

if TYPE_CHECKING:
    import argparse

    from modules.cloud.device_values import ValueList, ValueQuery
    from modules.cloud.messages import LinkSession
    from modules.cloud.object_writes import WriteList, WriteQuery
    from modules.page.picture import Links
    from modules.processes.cloudcore.control_client import ControlClient

_HINT: Final = "is `cloudcore run` running, with this --root or --socket?"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    text = "serve a page that shows the fleet and says why a pod does not run, for a browser on this machine"
    add_socket_options(add_page(commands, text, f"{__name__}:run"))


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore page` until Ctrl-C or SIGTERM."""
    from beehive.clock import RealClock  # noqa: PLC0415 - the command line is quick
    from modules.page.api import About, fleet_api  # noqa: PLC0415
    from modules.page.server import PageServer  # noqa: PLC0415
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415
    from modules.processes.cloudcore.pod_client import PodClient  # noqa: PLC0415
    from modules.processes.common.page_shell import SocketDoor  # noqa: PLC0415
    from modules.processes.common.version import VERSION  # noqa: PLC0415
    from modules.tools.kubectl.rest import RestClient  # noqa: PLC0415

    control = ControlClient(chosen.socket)
    control.cloudcores()  # without a cloudcore there is an error now, and no page
    clock = RealClock()
    about = About(str(chosen.socket), VERSION, "cloudcore", allowed=chosen.allow)
    door = SocketDoor(PodClient(chosen.socket)) if chosen.allow else None
    api = fleet_api(RestClient(chosen.socket, _HINT), ControlLinks(control), clock, about, door)
    status = serve_page(PageServer(api, clock, about.program, chosen.port))
    clock.close()
    return status


class ControlLinks:
    """The links of nodes, from cloudcore's control socket (`PageSource`)."""

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

    def writes(self, query: WriteQuery) -> WriteList:
        """Return writes of the change journal."""
        return self._control.changes(query)

    def device_values(self, query: ValueQuery) -> ValueList:
        """Return values of the device history."""
        return self._control.device_values(query)
