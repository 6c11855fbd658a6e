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
_ANSWERS: Final = {
    "apply": f"{_IN_THE_CLOUD}`cloudcore apply -f FILE`; a static pod is a file in the node's staticPodPath",
    "create": f"{_IN_THE_CLOUD}`cloudcore create -f FILE`",
    "replace": f"{_IN_THE_CLOUD}`cloudcore replace -f FILE`",
    "diff": f"{_IN_THE_CLOUD}`cloudcore diff -f FILE`",
    "edit": f"{_IN_THE_CLOUD}`cloudcore edit`",
    "run": f"{_IN_THE_CLOUD}write a manifest of the pod and `cloudcore apply -f` it",
    "cordon": "it is the cloud's: `cloudcore cordon NODE`",
    "uncordon": "it is the cloud's: `cloudcore uncordon NODE`",
    "drain": "it is the cloud's: `cloudcore cordon NODE`, then `cloudcore delete` its pods",
    "taint": "it is the cloud's: `cloudcore taint`",
    "debug": "`edgecore exec POD -- COMMAND` runs a command in a container",
    "cluster-info": "this is one node; `edgecore doctor` says what its cloud is, and how the link to it is",
    "ps": "`edgecore pods` lists the pods",
    "images": "`edgecore describe node` lists the images",
    "inspect": "`edgecore describe pod POD`, or `edgecore get pod POD -o yaml`",
    "stats": "`edgecore top pods`",
    "stop": "it is the cloud's: `cloudcore delete pod POD`, or `edgecore delete pod POD`, which asks it",
    "rm": "it is the cloud's: `cloudcore delete pod POD`, or `edgecore delete pod POD`, which asks it",
    "check": "`edgecore doctor` checks this node, `edgecore config check FILE` a file",
    "system": "`edgecore logs POD`, or for the agent itself the output of `edgecore run`",
    "list": "`edgecore pods` lists the pods, `edgecore store list` all stored objects",
}
"""For commands of kubectl, podman and `iotedge` that are not here."""


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
