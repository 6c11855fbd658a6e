"""The commands `edgecore version` and `cloudcore version`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.version import CONFIG_API_VERSION, CRI_VERSIONS, KUBEEDGE_COMMIT, VERSION

if TYPE_CHECKING:
    import argparse

_COMMAND: Final = f"{__name__}:print_versions"


def add(parser: argparse.ArgumentParser, commands: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    """Add `--version` and the command `version` to a program; return the command's parser."""
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    added: argparse.ArgumentParser = commands.add_parser(
        "version", help="print the version, and those of what the program talks to"
    )
    added.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    added.set_defaults(command=_COMMAND, program=parser.prog)
    return added


def print_versions(chosen: argparse.Namespace) -> int:
    """Print the versions, as lines or as an object of JSON."""
    found = versions(chosen.program)
    if chosen.output == "json":
        import msgspec  # noqa: PLC0415 - a third of the time of the command

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return ExitCode.OK
    sys.stdout.write(
        f"{chosen.program} {VERSION}\n"
        f"KubeEdge: messages and wire of commit {KUBEEDGE_COMMIT} (August 2026)\n"
        f"configuration: {CONFIG_API_VERSION}\n"
        f"container runtime interface: {', '.join(CRI_VERSIONS)}\n"
        f"Python {found['python']}\n"
    )
    return ExitCode.OK


def versions(program: str) -> dict[str, Any]:
    """Return the versions of a program and of its interfaces."""
    return {
        "program": program,
        "version": VERSION,
        "kubeEdgeCommit": KUBEEDGE_COMMIT,
        "configuration": CONFIG_API_VERSION,
        "containerRuntimeInterface": list(CRI_VERSIONS),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
    }
