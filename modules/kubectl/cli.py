"""Adds kubectl's verbs to the command line of a program."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.cli.parser import offered, unknown_command
from modules.cli.statuses import REFUSED, USAGE
from modules.kubectl.arguments import add_everywhere

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Mapping, Sequence

    from modules.cli.parser import VerbParser
    from modules.kubectl.session import Connect

_RUN: Final = "modules.kubectl.session:run"

_NO_USERS: Final = "who may open the socket may do everything; `kubectl auth` asks the secure port of a cloud"

ANSWERS: Final = {
    "annotate": "",
    "api-resources": "",
    "api-versions": "",
    "apply": "",
    "attach": "",
    "auth": _NO_USERS,
    "autoscale": "nothing is scaled by itself here: `scale --replicas=N` sets the number of pods",
    "certificate": "certificates are granted by tokens: `cloudcore token`, then `edgecore join` on the node",
    "cluster-info": "",
    "completion": "",
    "config": "it reads no kubeconfig, and --help of each command has the options that select the server; `cloudcore "
    "kubeconfig` makes one for kubectl",
    "cordon": "",
    "cp": "",
    "create": "",
    "debug": "add an ephemeral container by `patch`, or run a command by `exec`",
    "delete": "",
    "describe": "",
    "diff": "",
    "drain": "",
    "edit": "",
    "events": "",
    "exec": "",
    "explain": "the fields are at https://kubernetes.io/docs/reference/kubernetes-api/, and `apply` checks their names",
    "expose": "`apply` a Service: its selector is that of the Deployment",
    "get": "",
    "kustomize": "`kubectl kustomize DIR` makes manifests, and `apply -f -` takes them",
    "label": "",
    "logs": "",
    "options": "--help of each command has all of its options",
    "patch": "",
    "plugin": "there are no plugins",
    "port-forward": "",
    "proxy": "the socket speaks the Kubernetes API: `curl --unix-socket SOCKET http://localhost/api/v1/pods`",
    "replace": "",
    "rollout": "the node has pods only: `cloudcore rollout` or `kubectl rollout` in the cloud",
    "run": "`create pod NAME --image=IMAGE` makes a pod",
    "scale": "the node has pods only: `cloudcore scale` or `kubectl scale` in the cloud",
    "set": "`patch` changes a field, and `label` and `annotate` labels and annotations",
    "taint": "",
    "top": "",
    "uncordon": "",
    "version": "",
    "wait": "",
}
"""Every verb of kubectl 1.32, with the sentence for a program that lacks it; `{verb}` and `{program}` are replaced.

An empty sentence stands for a verb that every program has, or answers itself.
"""


_OF_OTHER_TOOLS: Final = {
    "auto-update": "`cloudcore rollout restart` starts the pods of a workload again, and imagePullPolicy Always pulls "
    "their images then",
    "compose": "write a Deployment, or a pod, for each service: docs/compare.md has the fields",
    "generate": "`{program} get pod NAME -o yaml` prints a manifest, `{program} unit` a systemd unit",
    "login": "`cloudcore create secret docker-registry` keeps the password, and the pod names it in imagePullSecrets",
}
"""For commands of podman and docker that neither program has."""


class VerbCommand(NamedTuple):
    """A verb of the command line."""

    text: str
    """Its help text in the list of commands."""
    module: str
    """Has `add(parser: VerbParser) -> None`, which adds the options, and `run(session: Session, chosen: Any) -> int`,
    which returns the exit status or raises KubectlError. It is imported only when the verb is in the command line.
    """


_OF_THE_PROGRAM: Final = ("-h", "--help", "--version")
_HERE: Final = "modules.kubectl"
VERBS: Final = {
    "get": VerbCommand("show objects", f"{_HERE}.get"),
    "describe": VerbCommand("show objects with all that belongs to them", f"{_HERE}.describe"),
    "apply": VerbCommand("make objects as manifests describe them", f"{_HERE}.apply"),
    "diff": VerbCommand("show what apply would change", f"{_HERE}.diff"),
    "create": VerbCommand("make new objects", f"{_HERE}.create"),
    "replace": VerbCommand("replace objects by manifests", f"{_HERE}.replace"),
    "edit": VerbCommand("change objects in an editor", f"{_HERE}.edit"),
    "explain": VerbCommand("show the fields of a kind", f"{_HERE}.explain"),
    "events": VerbCommand("show events, the newest last", f"{_HERE}.events"),
    "why": VerbCommand("say why a pod does not run, or how it came to run", f"{_HERE}.why"),
    "delete": VerbCommand("delete objects, and wait until they are gone", f"{_HERE}.delete"),
    "wait": VerbCommand("wait for a condition of objects, or for their end", f"{_HERE}.wait"),
    "label": VerbCommand("set and remove labels", f"{_HERE}.metadata"),
    "annotate": VerbCommand("set and remove annotations", f"{_HERE}.metadata"),
    "patch": VerbCommand("change fields of an object", f"{_HERE}.patch"),
    "scale": VerbCommand("set the number of pods of workloads", f"{_HERE}.scale"),
    "set": VerbCommand("give the containers of workloads other images", f"{_HERE}.set"),
    "rollout": VerbCommand("show, undo, restart, pause and resume rollouts of workloads", f"{_HERE}.rollout"),
    "cordon": VerbCommand("let no more pods onto a node", f"{_HERE}.node_scheduling"),
    "uncordon": VerbCommand("let pods onto a node again", f"{_HERE}.node_scheduling"),
    "drain": VerbCommand("let no more pods onto a node, and evict those that are there", f"{_HERE}.drain"),
    "taint": VerbCommand("set and remove taints of nodes", f"{_HERE}.taint"),
    "api-resources": VerbCommand("list the resources of the server", f"{_HERE}.api_resources"),
    "api-versions": VerbCommand("list the API versions of the server", f"{_HERE}.api_versions"),
    "top": VerbCommand("show what nodes and pods use of processors and memory", f"{_HERE}.top"),
    "cluster-info": VerbCommand("say where the server is", f"{_HERE}.cluster_info"),
}
"""The verbs of this package by name. An entry point passes its own selection, and may pass its own."""


def add_verbs(
    commands: argparse._SubParsersAction[Any],
    program: str,
    connect: Connect,
    verbs: Mapping[str, VerbCommand],
    *,
    add_connection: Callable[[VerbParser], None] = lambda _: None,
    words: Collection[str] | None = None,
) -> None:
    """Add verbs to the commands of a program.

    Each sets `command` to `modules.kubectl.session:run`, to be called with the arguments.

    Args:
        commands: of a VerbParser, so that its subparsers are VerbParsers.
        program: name of the command, as in errors.
        connect: makes the client from the arguments, when a verb runs.
        verbs: the verbs that this program has.
        add_connection: adds the entry point's own options to each verb, such as `--socket` and `--root`.
        words: the command line; the modules of verbs that are not in it are not imported. None imports all, as
            completion needs it.
    """
    for name, verb in verbs.items():
        parser = commands.add_parser(name, help=verb.text, description=verb.text, intermixed=True)
        parser.set_defaults(command=_RUN, kubectl=(program, verb.module, connect), verb=name)
        if words is None or name in words:
            import_module(verb.module).add(parser)
            add_everywhere(parser)
            add_connection(parser)


def add_answers(commands: argparse._SubParsersAction[Any], program: str, answers: Mapping[str, str]) -> None:
    """Add an answer for each verb of kubectl's that `commands` lacks; to be called after all commands were added.

    Args:
        commands: the commands of the program.
        program: its name.
        answers: advice on an alternative, by verb. They replace `ANSWERS`; further words, such as commands of
            other tools, may be among them. Their status means a wrong command line.
    """
    for name, sentence in (ANSWERS | _OF_OTHER_TOOLS | dict(answers)).items():
        if name not in commands.choices and sentence:
            parser = commands.add_parser(name, add_help=False, prefix_chars="\0")
            parser.add_argument("words", nargs="*")
            status = REFUSED if name in ANSWERS else USAGE
            parser.set_defaults(command=f"{__name__}:refuse", kubectl=(program, name, sentence, status))


def refuse(chosen: Any) -> int:
    """Say that there is no such verb, with advice; return the exit status."""
    from modules.apimachinery.printing.terminal import print_text  # noqa: PLC0415 - the command line is read without it

    program, name, sentence, status = chosen.kubectl
    print_text(f"error: {program} has no `{name}`: {sentence.format(verb=name, program=program)}", to=sys.stderr)
    return int(status)


def add_help(parser: VerbParser, commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command `help`, and `help COMMAND`."""
    added = commands.add_parser("help", help="show this, or the help of a command")
    added.add_argument("about", nargs="?", metavar="COMMAND")
    added.set_defaults(command=f"{__name__}:print_help", kubectl=(parser, commands))


def print_help(chosen: Any) -> int:
    """Print the help of the program or of a command; return the exit status."""
    parser, commands = chosen.kubectl
    if chosen.about and chosen.about not in commands.choices:
        parser.error(unknown_command(chosen.about, offered(commands)))
    parser.parse_args([chosen.about, "--help"] if chosen.about else ["--help"])
    return 0


def arranged(parser: VerbParser, commands: argparse._SubParsersAction[Any], words: Sequence[str]) -> list[str]:
    """Return a command line with the command first: kubectl takes options before the verb, too (`-n x get pods`).

    An unknown command ends the process with an error that names those like it.

    Args:
        parser: the parser of the program.
        commands: its commands.
        words: the command line.
    """
    names = commands.choices
    if words and not words[0].startswith("-") and words[0] not in names:
        parser.error(unknown_command(words[0], offered(commands)))
    if not words or words[0] in names or words[0] in _OF_THE_PROGRAM:
        return list(words)
    place = next((place for place, word in enumerate(words) if word in names), None)
    if place is None:
        return list(words)
    end = place + 1 + _commands_within(names[words[place]], words[place + 1 :])
    return [*words[place:end], *words[:place], *words[end:]]


def _commands_within(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Return how many words at the beginning are commands of a command: `history` of `devices history`."""
    within = [each.choices for each in parser._actions if isinstance(each.choices, dict)]
    if not words or not within or words[0] not in within[0]:
        return 0
    return 1 + _commands_within(within[0][words[0]], words[1:])
