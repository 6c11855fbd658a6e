"""Commands that query the node on this machine: kubectl's verbs, and `pods`, `logs`, `exec`, `attach`, `cp`,
`port-forward` and `top`.

They talk to the running edgecore over its socket (`edged.sock` in the root directory), so they work without a cloud,
for every user with access to the socket. This module has only the arguments, because the command line is parsed before
anything else is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.processes.common import pod_commands
from modules.processes.edgecore.local import arguments
from modules.processes.edgecore.local.answers import ANSWERS
from modules.tools.kubectl.cli import VERBS, add_answers, add_verbs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from modules.processes.common.pod_commands.client import NodeClient
    from modules.tools.kubectl.parser import VerbParser
    from modules.tools.kubectl.rest import RestClient

_HERE: Final = __name__

_VERBS: Final = (
    "get", "describe", "events", "why", "wait", "api-resources", "api-versions", "delete", "label", "annotate", "patch",
)  # fmt: skip
"""The verbs of kubectl that make sense on a node; the cloud carries out the last four."""


def add(commands: argparse._SubParsersAction[Any], words: Collection[str] | None = None) -> None:
    """Add these commands to `edgecore`, and answers for kubectl's commands that are not here; to be called last.

    Args:
        commands: of a VerbParser.
        words: the command line; arguments of kubectl's verbs that are not in it are not loaded. None loads all.
    """
    for parser in pod_commands.add_parsers(commands, _HERE, arguments.COMMANDS):
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
