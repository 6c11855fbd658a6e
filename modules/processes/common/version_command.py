"""The commands `edgecore version` and `cloudcore version`."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.version import (
    COMMIT,
    COMMIT_TIME,
    CONFIG_API_VERSION,
    CRI_VERSIONS,
    KUBEEDGE_COMMIT,
    VERSION,
)

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
        f"build: {_build_line(found['build'])}\n"
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
        "build": _build(),
        "kubeEdgeCommit": KUBEEDGE_COMMIT,
        "configuration": CONFIG_API_VERSION,
        "containerRuntimeInterface": list(CRI_VERSIONS),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
    }


def _build() -> dict[str, Any]:
    """Return where the program comes from: a distribution with its commit, or a clone with the one checked out."""
    if COMMIT:
        return {"from": "distribution", "commit": COMMIT, "commitTime": COMMIT_TIME, "modified": ".dirty" in VERSION}
    from modules.processes.common.source_version import checked_out  # noqa: PLC0415 - only a clone asks git

    source = checked_out()
    if source is None:
        return {"from": "sources", "commit": "", "commitTime": "", "modified": False}
    return {"from": "clone", "commit": source.hash, "commitTime": source.rfc3339, "modified": source.is_modified}


def _build_line(build: dict[str, Any]) -> str:
    if not build["commit"]:
        return "from sources without git, whose commit is not known"
    where = "from a clone of commit" if build["from"] == "clone" else "commit"
    return f"{where} {build['commit']} of {build['commitTime']}{', with changes' if build['modified'] else ''}"
