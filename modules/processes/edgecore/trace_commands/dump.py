"""The command `edgecore trace dump`: has the running process write its flight recorder and prints the file's path."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from beehive.errors import TraceError
from modules.apimachinery.printing.terminal import print_error
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.location import load_node
from modules.processes.edgecore.trace_socket import SOCKET, ask


def dump(chosen: argparse.Namespace) -> int:
    """Print the path of the file; remarks go to standard error."""
    try:
        config = load_node(chosen).config
        answer = ask(config.modules.edged.root_directory / SOCKET)
        if "error" in answer:
            raise TraceError("edgecore could not write its flight recorder", str(answer["error"]))
        path = Path(answer["path"])
        if chosen.output:
            path = _copy(path, chosen.output)
    except ConfigError as error:
        for problem in error.problems:
            _print_remark(f"error: {problem.render(error.source)}")
        return ExitCode.CONFIGURATION
    except (TraceError, OSError) as error:
        _print_remark(f"error: {error}")
        return ExitCode.START_FAILED
    _print_remark(f"{answer['records']} records")
    sys.stdout.write(f"{path}\n")
    return ExitCode.OK


def _copy(source: Path, target: Path) -> Path:
    """Copy the file, readable by its owner only."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as copy, source.open("rb") as original:
        shutil.copyfileobj(original, copy)
    return target


def _print_remark(text: str) -> None:
    print_error("edgecore", text)
