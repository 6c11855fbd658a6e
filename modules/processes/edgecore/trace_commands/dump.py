"""The command `edgecore trace dump`: has the running process write its flight recorder and prints the file's path."""

import argparse
import shutil
import sys
from pathlib import Path

from beehive.errors import TraceError
from beehive.files.opening import opener_with
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.location import load_node
from modules.processes.edgecore.reporting import print_remark, reporting_errors_as
from modules.processes.edgecore.trace_socket import SOCKET, ask


@reporting_errors_as(ExitCode.START_FAILED)
def dump(chosen: argparse.Namespace) -> None:
    """Print the path of the file; remarks go to standard error."""
    config = load_node(chosen).config
    answer = ask(config.modules.edged.root_directory / SOCKET)
    if "error" in answer:
        raise TraceError("edgecore could not write its flight recorder", str(answer["error"]))
    path = Path(answer["path"])
    if chosen.output:
        path = _copy(path, chosen.output)
    print_remark(f"{answer['records']} records")
    sys.stdout.write(f"{path}\n")


def _copy(source: Path, target: Path) -> Path:
    """Copy the file, readable by its owner only."""
    with open(target, "wb", opener=opener_with()) as copy, source.open("rb") as original:
        shutil.copyfileobj(original, copy)
    return target
