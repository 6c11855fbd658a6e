"""The command `cloudcore page`: a picture of the fleet for a browser on this machine, until Ctrl-C."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.page_options import add_page, serve_page

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from beehive.clock import Clock
    from beehive.errors import BeehiveError
    from modules.cloud.client.http.transport import HttpTransport
    from modules.cloud.client.kubeconfig.model import Selected
    from modules.cloud.device_values import ValueList, ValueQuery
    from modules.cloud.messages import LinkSession
    from modules.cloud.object_writes import WriteList, WriteQuery
    from modules.page.api import FleetApi
    from modules.page.picture import Links
    from modules.processes.cloudcore.control_client import ControlClient

_PROGRAM: Final = "cloudcore"
_HINT: Final = "is `cloudcore run` running, with this --root or --socket?"
_SHELLS: Final = "shells of the page go by cloudcore's socket; with a kubeconfig, use `kubectl exec -it`"
_UNKNOWN: Final = (
    "connections, waiting messages and certificates, which only cloudcore knows. The state of a node is its condition "
    "Ready, as the API server has it"
)


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    text = "serve a page that shows the fleet and why pods do not run, for a browser on this machine"
    parser = add_page(commands, text, f"{__name__}:run")
    add_socket_options(parser)
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="show the fleet of this API server, as the file's user may see it",
    )
    parser.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore page` until Ctrl-C or SIGTERM."""
    from beehive.clock import RealClock  # noqa: PLC0415 - the command line is quick
    from modules.page.server import PageServer  # noqa: PLC0415

    if chosen.allow and chosen.kubeconfig:
        sys.stderr.write(f"cloudcore page: {_SHELLS}\n")
        return ExitCode.USAGE
    clock = RealClock()
    transport = None
    try:
        if chosen.kubeconfig:
            selected, transport = cluster_of(chosen.kubeconfig, chosen.context, clock)
            api = cluster_api(selected, transport, clock)
        else:
            api = socket_api(chosen.socket, chosen.allow, clock)
        return serve_page(PageServer(api, clock, _PROGRAM, chosen.port))
    finally:
        if transport is not None:
            transport.close()
        clock.close()


def socket_api(path: Path, allowed: Sequence[str], clock: Clock) -> FleetApi:
    """Return the answers about the fleet of the cloudcore behind a control socket. Raise BeehiveError without one."""
    from modules.cli.rest import RestClient  # noqa: PLC0415
    from modules.page.api import About, fleet_api  # noqa: PLC0415 - as in `run`
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415
    from modules.processes.cloudcore.pod_client import PodClient  # noqa: PLC0415
    from modules.processes.common.page_shell import SocketDoor  # noqa: PLC0415
    from modules.processes.common.version import VERSION  # noqa: PLC0415

    control = ControlClient(path)
    name = control.cloudcores().cloud  # without a cloudcore there is an error now, and no page
    about = About(name or str(path), VERSION, _PROGRAM, allowed=allowed)
    door = SocketDoor(PodClient(path)) if allowed else None
    return fleet_api(RestClient(path, _HINT), ControlLinks(control), clock, about, door)


def cluster_of(kubeconfig: Path, context: str, clock: Clock) -> tuple[Selected, HttpTransport]:
    """Return the choice of a kubeconfig and a transport to its server, which the caller closes. Raises BeehiveError."""
    from modules.processes.common.kubeconfig_client import transport_of  # noqa: PLC0415 - as in `run`
    from modules.processes.common.page_shell import USER_AGENT  # noqa: PLC0415

    return transport_of(kubeconfig, context, clock, USER_AGENT)


def cluster_api(selected: Selected, transport: HttpTransport, clock: Clock) -> FleetApi:
    """Return the answers about the fleet of an API server, with a user's rights.

    Args:
        selected: names the server.
        transport: to the server, as the user.
        clock: for ages, and for the feeds.

    Raises:
        BeehiveError: the server does not answer, or the user may not list nodes or pods.
    """
    from modules.page.api import About, fleet_api  # noqa: PLC0415 - as in `run`
    from modules.processes.cloudcore.kubeconfig_control import KubeconfigControl  # noqa: PLC0415
    from modules.processes.common.kubeconfig_client import KubeconfigClient  # noqa: PLC0415
    from modules.processes.common.version import VERSION  # noqa: PLC0415

    client, control = KubeconfigClient(transport), KubeconfigControl(transport)
    for plural in ("nodes", "pods"):  # without these there is an error now, and no page
        client.get(f"/api/v1/{plural}", (("limit", "1"),))
    has_facts = control.serves_facts()
    name = control.cloudcores().cloud if has_facts else ""
    about = About(name or selected.cluster.server, VERSION, _PROGRAM)
    if has_facts:
        return fleet_api(client, ControlLinks(control), clock, about)
    return fleet_api(client, UnknownLinks(), clock, about, unknown={"links": _UNKNOWN})


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


class UnknownLinks:
    """The links of nodes at an API server without cloudcore's own facts: nothing is known (`PageSource`)."""

    def links(self) -> Links:
        """See `LinkSource`."""
        from modules.page.picture import Links  # noqa: PLC0415 - as in `run`

        return Links(are_known=False)

    def sessions(self, since: float) -> list[LinkSession]:  # noqa: ARG002 - of `LinkSource`
        """See `LinkSource`."""
        return []

    def history(self, node: str) -> list[LinkSession]:  # noqa: ARG002 - of `PageSource`
        """See `PageSource`."""
        return []

    def writes(self, query: WriteQuery) -> WriteList:  # noqa: ARG002 - of `PageSource`
        """Raise HttpStatusError."""
        raise _unknown("the change journal", "cloudcore changes")

    def device_values(self, query: ValueQuery) -> ValueList:  # noqa: ARG002 - of `PageSource`
        """Raise HttpStatusError."""
        raise _unknown("the history of devices", "cloudcore devices history")


def _unknown(what: str, command: str) -> BeehiveError:
    from beehive.http.errors import HttpStatusError  # noqa: PLC0415 - as in `run`

    return HttpStatusError(404, f"{what} is cloudcore's, which this page does not ask", hint=f"there: `{command}`")
