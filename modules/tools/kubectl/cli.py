"""Adds kubectl's verbs to the command line of a program."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.tools.kubectl.absent import ANSWERS, refusal
from modules.tools.kubectl.arguments import add_everywhere
from modules.tools.kubectl.parser import VerbParser
from modules.tools.printing.terminal import print_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Mapping

    from modules.tools.kubectl.session import Connect

_RUN: Final = "modules.tools.kubectl.session:run"


class VerbCommand(NamedTuple):
    """A verb of the command line."""

    text: str
    """What it does, for the list of commands."""
    module: str
    """Has `add(parser: VerbParser) -> None`, which adds the options, and `run(session: Session, chosen: Any) -> int`,
    which returns the exit status or raises KubectlError. It is imported only when the verb is in the command line.
    """


_HERE: Final = "modules.tools.kubectl"
VERBS: Final = {
    "get": VerbCommand("show objects", f"{_HERE}.get"),
    "events": VerbCommand("show events, the newest last", f"{_HERE}.events"),
    "delete": VerbCommand("delete objects, and wait until they are gone", f"{_HERE}.delete"),
    "wait": VerbCommand("wait for a condition of objects, or for their end", f"{_HERE}.wait"),
    "label": VerbCommand("set and remove labels", f"{_HERE}.label"),
    "annotate": VerbCommand("set and remove annotations", f"{_HERE}.annotate"),
    "patch": VerbCommand("change fields of an object", f"{_HERE}.patch"),
    "cordon": VerbCommand("let no more pods onto a node", f"{_HERE}.cordon"),
    "uncordon": VerbCommand("let pods onto a node again", f"{_HERE}.uncordon"),
    "taint": VerbCommand("set and remove taints of nodes", f"{_HERE}.taint"),
    "api-resources": VerbCommand("list the resources of the server", f"{_HERE}.api_resources"),
    "api-versions": VerbCommand("list the API versions of the server", f"{_HERE}.api_versions"),
    "cluster-info": VerbCommand("say where the server is", f"{_HERE}.cluster_info"),
}
"""The verbs of this package by name. An entry point passes those that it has, and may pass its own."""


def add_verbs(
    commands: argparse._SubParsersAction[Any],
    program: str,
    connect: Connect,
    verbs: Mapping[str, VerbCommand],
    *,
    answers: Mapping[str, str],
    add_connection: Callable[[VerbParser], None] = lambda _: None,
    words: Collection[str] | None = None,
) -> None:
    """Add the verbs, and an answer for each verb of kubectl's that is not among them and that `commands` lacks.

    Each sets `command` to `modules.tools.kubectl.session:run`, to be called with the arguments.

    Args:
        commands: of a VerbParser, so that its subparsers are VerbParsers.
        program: name of the command, as in errors.
        connect: makes the client from the arguments, when a verb runs.
        verbs: the verbs that this program has.
        answers: for verbs that it does not have, what to do instead; over `ANSWERS`.
        add_connection: adds the entry point's own options to each verb, such as `--socket` and `--root`.
        words: the command line; the modules of verbs that are not in it are not imported. None imports all, as
            completion needs it.
    """
    for name, verb in verbs.items():
        parser = commands.add_parser(name, help=verb.text, description=verb.text, intermixed=True)
        parser.set_defaults(command=_RUN, kubectl=(program, verb.module, connect))
        if words is None or name in words:
            import_module(verb.module).add(parser)
            add_everywhere(parser)
            add_connection(parser)
    for name, sentence in (ANSWERS | dict(answers)).items():
        if name not in commands.choices:
            _add_absent(commands, program, name, sentence)


def _add_absent(commands: argparse._SubParsersAction[Any], program: str, name: str, sentence: str) -> None:
    """Add a command that takes any words, is not in the list of commands, and says where to look."""
    parser = commands.add_parser(name, add_help=False, prefix_chars="\0")
    parser.add_argument("words", nargs="*")
    parser.set_defaults(command=f"{__name__}:refuse", kubectl=(program, name, sentence))


def refuse(chosen: Any) -> int:
    """Say that there is no such verb, and where it is; return the exit status."""
    error = refusal(*chosen.kubectl)
    print_text(error.line, to=sys.stderr)
    return error.status
