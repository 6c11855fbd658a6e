"""Commands that query the node on this machine: kubectl's verbs, and `pods`, `logs`, `exec`, `attach`, `cp`,
`port-forward` and `top`.

They talk to the running edgecore over its socket (`edged.sock` in the root directory), so they work without a cloud,
for every user with access to the socket. This module has only the arguments, because the command line is parsed before
anything else is loaded.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from modules.processes.edgecore.local import arguments
from modules.processes.edgecore.location import add_location
from modules.tools.kubectl.cli import VERBS, add_answers, add_verbs

if TYPE_CHECKING:
    from collections.abc import Collection

    from modules.tools.kubectl.parser import VerbParser
    from modules.tools.kubectl.rest import RestClient

_HERE: Final = __name__

_VERBS: Final = (
    "get", "describe", "events", "wait", "api-resources", "api-versions", "delete", "label", "annotate", "patch",
)  # fmt: skip
"""Of kubectl's verbs those that make sense on a node; the last four are carried out by the cloud."""

_IN_THE_CLOUD: Final = "objects are made in the cloud, which sends this node its part of them: "
_ASK_THE_CLOUD: Final = "it is the cloud's: `cloudcore delete pod POD`, or `edgecore delete pod POD`, which asks it"
_STATIC: Final = "write a manifest of the pod and `cloudcore apply -f` it, or put it into the node's staticPodPath"
_ANSWERS: Final = {
    "apply": f"{_IN_THE_CLOUD}`cloudcore apply -f FILE`; a static pod is a file in the node's staticPodPath",
    "create": f"{_IN_THE_CLOUD}`cloudcore create -f FILE`",
    "replace": f"{_IN_THE_CLOUD}`cloudcore replace -f FILE`",
    "diff": f"{_IN_THE_CLOUD}`cloudcore diff -f FILE`",
    "edit": f"{_IN_THE_CLOUD}`cloudcore edit`",
    "cordon": "it is the cloud's: `cloudcore cordon NODE`",
    "uncordon": "it is the cloud's: `cloudcore uncordon NODE`",
    "drain": "it is the cloud's: `cloudcore cordon NODE`, then `cloudcore delete` its pods",
    "taint": "it is the cloud's: `cloudcore taint`",
    "debug": "`edgecore exec POD -- COMMAND` runs a command in a container, `edgecore doctor` checks the node",
    "cluster-info": "this is one node; `edgecore doctor` says what its cloud is, and how the link to it is",
    "kubectl": "its verbs are commands of edgecore itself: `edgecore get pods`",
    "ctl": "its verbs are commands of edgecore itself: `edgecore get pods`",
    "ps": "`edgecore pods` lists the pods",
    "list": "`edgecore pods` lists the pods, `edgecore store list` all stored objects",
    "images": "`edgecore describe node` lists the images",
    "inspect": "`edgecore describe pod POD`, or `edgecore get pod POD -o yaml`",
    "stats": "`edgecore top pods`",
    "pull": "an image is pulled when a pod needs it; imagePullPolicy of its container says when",
    "play": _STATIC,
    "stop": _ASK_THE_CLOUD,
    "rm": _ASK_THE_CLOUD,
    "kill": f"for the whole pod {_ASK_THE_CLOUD}; `edgecore exec POD -- kill 1` ends a container",
    "restart": "a pod: `edgecore exec POD -- kill 1`, or delete and apply it; the agent: `systemctl restart edgecore`",
    "info": "`edgecore describe node` shows the node, `edgecore doctor` checks it",
    "status": "`edgecore doctor` says how the node is; of the service, `systemctl status edgecore`",
    "check": "`edgecore doctor` checks this node, `edgecore config check FILE` a file",
    "check-config": "`edgecore config check FILE`; `edgecore doctor` checks the machine",
    "support-bundle": "`edgecore trace dump` writes what the node did, `edgecore doctor` how it is",
    "system": "`edgecore doctor` checks the node; images and dead containers are removed by themselves",
    "server": "the cloud is another program: `cloudcore run`",
    "agent": "`edgecore run`",
    "reset": "`edgecore uninstall` removes what running left",
    "upgrade": "`pip install --upgrade`, then a restart; containers run on meanwhile",
}
"""For commands of kubectl, podman, k3s, keadm and iotedge that are not here."""


def add(commands: argparse._SubParsersAction[Any], words: Collection[str] | None = None) -> None:
    """Add these commands to those of `edgecore`, and answers for those of kubectl that are not here; to be called last.

    Args:
        commands: of a VerbParser.
        words: the command line; arguments of kubectl's verbs that are not in it are not loaded. None loads all.
    """
    for name, (text, function, add_arguments) in arguments.COMMANDS.items():
        parser = commands.add_parser(name, help=text, description=text, intermixed=True)
        add_arguments(parser)
        add_location(parser)
        parser.set_defaults(command=f"{_HERE}.{function}")
    verbs = {name: VERBS[name] for name in _VERBS}
    add_verbs(commands, "edgecore", connect, verbs, add_connection=_add_location, words=words)
    add_answers(commands, "edgecore", _ANSWERS)


def connect(chosen: argparse.Namespace) -> RestClient:
    """Return the client of the node's Kubernetes API; end the process if the node's configuration cannot be read."""
    from modules.processes.edgecore.local.node import report_errors, rest_client  # noqa: PLC0415

    with report_errors():
        return rest_client(chosen)


def _add_location(parser: VerbParser) -> None:
    add_location(parser)
