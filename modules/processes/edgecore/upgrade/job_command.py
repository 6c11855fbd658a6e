"""The command `edgecore job`: the job of the cloud that is under way, and its confirmation by the owner of the node."""

import argparse

from beehive.decoding import decode_json
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.edge.taskmanager.owner import JobShown
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.local.node import node_of, report_errors
from modules.processes.edgecore.socket_path import JOB_PATH


def job(chosen: argparse.Namespace) -> int:
    """Print the job, or let the one that waits go on."""
    with report_errors():
        method = "POST" if chosen.confirm else "GET"
        found = decode_json(b"".join(node_of(chosen).stream(JOB_PATH, method=method, body=b"")), JobShown)
        if chosen.confirm and not found.resource:
            raise NodeError("no job waits for a confirmation")
    if chosen.json:
        print_json(found, indent=2)
        return ExitCode.OK
    print_lines([line_of(found, confirmed=chosen.confirm)])
    return ExitCode.OK


def line_of(found: JobShown, *, confirmed: bool = False) -> str:
    """Return a job in a line."""
    if not found.resource:
        return "no job is under way"
    *_, kind, name, _, _ = found.resource.split("/")
    if confirmed:
        return f"{kind} {name} goes on with {found.action}"
    return (
        f"{kind} {name}: {'waits for `edgecore job --confirm` before' if found.is_waiting else 'does'} {found.action}"
    )
