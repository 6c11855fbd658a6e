"""The command `edgecore top --live`."""

import argparse
import sys

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.local.node import node_of, report_errors
from modules.processes.edgecore.reporting import print_remark


def live(chosen: argparse.Namespace) -> int:
    """Show the node until `q`; the exit status is 2 without a terminal, 12 without textual."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        print_remark("error: top --live needs a terminal; `edgecore pods` and `edgecore top pods` print tables")
        return ExitCode.USAGE
    try:
        import textual  # noqa: F401, PLC0415 - an extra, and heavy
    except ImportError:
        print_remark("error: top --live needs textual: pip install 'edgecore[tui]'")
        return ExitCode.NOT_INSTALLED
    with report_errors():
        node = node_of(chosen)
    from modules.processes.edgecore.top.background import is_light  # noqa: PLC0415 - a terminal is there
    from modules.processes.edgecore.top.run import run_app  # noqa: PLC0415 - textual is heavy, and may be missing

    return run_app(node, chosen.interval, light=is_light())
