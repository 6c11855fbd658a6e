"""The command `edgecore metrics`: prints the node's counters, in Prometheus' text format."""

import argparse

from modules.apimachinery.printing.terminal import print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.local.node import node_of, report_errors


def metrics(chosen: argparse.Namespace) -> int:
    """Print the metrics."""
    with report_errors():
        text = node_of(chosen).get("/metrics")
    print_lines(text.decode(errors="replace").splitlines())
    return ExitCode.OK
