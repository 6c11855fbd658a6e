"""The command `edgecore logs`: prints or follows the log of a container."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from edged.api import parse_time
from edged.api.times import TimeError
from modules.processes.edgecore.config.durations import parse_duration
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.local.node import NodeError, node_of, report_errors, url

if TYPE_CHECKING:
    import argparse


def logs(chosen: argparse.Namespace) -> int:
    """Print the log."""
    with report_errors():
        query = wanted(chosen)
        node = node_of(chosen)
        container = node.container(chosen.pod, chosen.container)
        path = url("containerLogs", *chosen.pod, container, query=query)
        for piece in node.stream(path, patient=chosen.follow):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return ExitCode.OK


def wanted(chosen: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the query of the request."""
    switches = (("follow", chosen.follow), ("previous", chosen.previous), ("timestamps", chosen.timestamps))
    query = [(name, "true") for name, on in switches if on]
    if chosen.tail is not None:
        query.append(("tailLines", str(chosen.tail)))
    if chosen.since:
        query.append(_since(chosen.since))
    return query


def _since(text: str) -> tuple[str, str]:
    try:
        return "sinceSeconds", str(max(1, round(parse_duration(text))))
    except ValueError:
        pass
    try:
        parse_time(text)
    except TimeError:
        raise NodeError("cannot read --since", text, "an age as 10m, or a time as 2026-11-20T05:42:16Z") from None
    return "sinceTime", text
