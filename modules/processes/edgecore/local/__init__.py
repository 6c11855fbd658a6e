"""Commands that query the node on this machine: kubectl's verbs, and `pods`, `logs`, `exec`, `attach`, `cp`,
`port-forward` and `top`.

They talk to the running edgecore over its socket (`edged.sock` in the root directory), so they work without a cloud,
for every user with access to the socket. This module has only the arguments, because the command line is parsed before
anything else is loaded.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from modules.kubectl.cli import VERBS, add_answers, add_verbs
from modules.processes.common import pod_commands
from modules.processes.common.durations import seconds_option
from modules.processes.common.pod_commands.arguments import add_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from modules.cli.parser import VerbParser
    from modules.cli.rest import RestClient
    from modules.processes.common.pod_commands.client import NodeClient

_IN_THE_CLOUD: Final = "objects are made in the cloud, which sends this node its part of them: "
_ASK_THE_CLOUD: Final = "it is the cloud's: `cloudcore delete pod POD`, or `edgecore delete pod POD`, which asks it"
_STATIC: Final = "write a manifest of the pod and `cloudcore apply -f` it, or put it into the node's staticPodPath"
ANSWERS: Final[dict[str, str]] = {
    "apply": f"{_IN_THE_CLOUD}`cloudcore apply -f FILE`; a static pod is a file in the node's staticPodPath",
    "create": f"{_IN_THE_CLOUD}`cloudcore create -f FILE`",
    "replace": f"{_IN_THE_CLOUD}`cloudcore replace -f FILE`",
    "diff": f"{_IN_THE_CLOUD}`cloudcore diff -f FILE`",
    "edit": f"{_IN_THE_CLOUD}`cloudcore edit`",
    "explain": "the schemas are the cloud's: `cloudcore explain pod.spec`",
    "cordon": "it is the cloud's: `cloudcore cordon NODE`",
    "uncordon": "it is the cloud's: `cloudcore uncordon NODE`",
    "drain": "it is the cloud's: `cloudcore drain NODE`",
    "taint": "it is the cloud's: `cloudcore taint`",
    "debug": "`edgecore exec POD -- COMMAND` runs a command in a container, `edgecore doctor` checks the node",
    "cluster-info": "this is one node; `edgecore doctor` says what its cloud is, and how the link to it is",
    "kubectl": "its verbs are commands of edgecore itself: `edgecore get pods`",
    "ctl": "its verbs are commands of edgecore itself: `edgecore get pods`",
    "ps": "`edgecore pods` lists the pods, `edgecore containers` their containers",
    "list": "`edgecore pods` lists the pods, `edgecore store list` all stored objects",
    "stats": "`edgecore top pods`",
    "pull": "an image is pulled when a pod needs it, as its imagePullPolicy says, or by `edgecore images pull IMAGE`",
    "play": _STATIC,
    "stop": _ASK_THE_CLOUD,
    "rm": _ASK_THE_CLOUD,
    "kill": _ASK_THE_CLOUD,
    "info": "`edgecore describe node` shows the node, `edgecore doctor` checks it",
    "status": "`edgecore doctor` says how the node is; of the service, `systemctl status edgecore`",
    "check": "`edgecore doctor` checks this node, `edgecore config check FILE` a file",
    "check-config": "`edgecore config check FILE`; `edgecore doctor` checks the machine",
    "system": "`edgecore doctor` checks the node; images and dead containers are removed by themselves",
    "server": "the cloud is another program: `cloudcore run`",
    "agent": "`edgecore run`",
}
"""For commands of kubectl, podman, k3s, keadm and iotedge that are not here."""
_HERE: Final = __name__

_VERBS: Final = (
    "get", "describe", "events", "why", "wait", "api-resources", "api-versions", "delete", "label", "annotate", "patch",
)  # fmt: skip
"""The verbs of kubectl that make sense on a node; the cloud carries out the last four."""

_LIVE: Final = "modules.processes.edgecore.top.command:live"
"""The function of `top --live`."""
_SHORTEST: Final = 0.2


def _add_pods(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="POD", help="only these")
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="only of this one (default: all)")
    parser.flag("-A", "--all-namespaces", text="all namespaces, which is the default")
    add_selector(parser)
    parser.add_argument(
        "-o", "--output", choices=("table", "wide", "json", "yaml", "name"), default="table", help="default: table"
    )
    parser.flag("--no-headers", text="without the line of titles")


def _add_top(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="pods|nodes [NAME]", help="what to measure")
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="namespace (default: default)")
    parser.flag("-A", "--all-namespaces", text="all namespaces")
    add_selector(parser)
    parser.flag("--containers", text="show each container")
    parser.add_argument("--sort-by", choices=("cpu", "memory"), default="", help="the greatest first")
    parser.flag("--sum", text="add a line of sums")
    parser.flag("--no-headers", text="without the line of titles")
    parser.add_argument(
        "--live",
        dest="command",
        action="store_const",
        const=_LIVE,
        default=argparse.SUPPRESS,
        help="the whole node on the screen, with keys to look closer",
    )
    parser.add_argument(
        "--interval",
        type=_interval,
        default=2.0,
        metavar="DURATION",
        help="pause of --live between two looks (default 2s)",
    )


def _interval(text: str) -> float:
    if (seconds := seconds_option(text)) < _SHORTEST:
        raise argparse.ArgumentTypeError(f"{_SHORTEST} s are the shortest time: {text}")
    return seconds


COMMANDS: Final[dict[str, tuple[str, str, Callable[[VerbParser], None]]]] = {
    "pods": ("list the pods of the node on this machine", "pods:pods", _add_pods),
    "metrics": ("print the metrics, in Prometheus' format", "metrics:metrics", lambda _: None),
    "top": ("show the CPU and memory that the node and its pods use", "top:top", _add_top),
}
"""For each command: its help text, its function in this package, and the function that adds its arguments."""


def add(commands: argparse._SubParsersAction[Any], words: Collection[str] | None = None) -> None:
    """Add these commands to `edgecore`, and answers for kubectl's commands that are not here; to be called last.

    Args:
        commands: of a VerbParser.
        words: the command line; arguments of kubectl's verbs that are not in it are not loaded. None loads all.
    """
    for parser in pod_commands.add_parsers(commands, _HERE, COMMANDS):
        _add_location(parser)
    pod_commands.add(commands, "edgecore", _node, _add_location)
    verbs = {name: VERBS[name] for name in _VERBS}
    add_verbs(commands, "edgecore", connect, verbs, add_connection=_add_location, words=words)
    add_answers(commands, "edgecore", ANSWERS)


def connect(chosen: argparse.Namespace) -> RestClient:
    """Return the client of the node's Kubernetes API; end the process if the node's configuration cannot be read."""
    from modules.processes.edgecore.local.node import report_errors, rest_client  # noqa: PLC0415

    with report_errors():
        return rest_client(chosen)


def _node(chosen: argparse.Namespace) -> NodeClient:
    """Return the client of the node that the options select; end the process if its configuration cannot be read."""
    from modules.processes.edgecore.local.node import node_of, report_errors  # noqa: PLC0415

    with report_errors():
        return node_of(chosen)


def _add_location(parser: VerbParser) -> None:
    from modules.processes.edgecore.location import add_location  # noqa: PLC0415

    add_location(parser)
