"""The command `edgecore release`: lets pods begin that wait for the owner of the node."""

import argparse

from beehive.decoding import decode_json
from beehive.printable import printable
from edged.pods.hold import Released
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import with_query
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.local.node import node_of, report_errors
from modules.processes.edgecore.socket_path import RELEASE_PATH


def release(chosen: argparse.Namespace) -> int:
    """Release a pod, or all."""
    if bool(chosen.pod) is chosen.all:
        print_error("edgecore", "name a pod, or give --all")
        return ExitCode.USAGE
    with report_errors():
        query = [("namespace", chosen.namespace), ("name", chosen.pod)] if chosen.pod else []
        path = with_query(RELEASE_PATH, query)
        found = decode_json(b"".join(node_of(chosen).stream(path, method="POST", body=b"")), Released)
        if not found.pods and chosen.pod:
            what = "does not wait for a release" if found.is_known else "is not on this node"
            raise NodeError(f"pod {printable(chosen.namespace)}/{printable(chosen.pod)} {what}")
    print_lines([f"{each} begins" for each in found.pods] or ["no pod waits for a release"])
    return ExitCode.OK
