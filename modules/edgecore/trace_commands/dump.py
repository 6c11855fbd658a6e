"""`edgecore trace dump`: asks the running process and says which file it wrote."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from beehive.trace.errors import TraceError
from modules.edgecore.cli import default_root
from modules.edgecore.config import ConfigError, EdgeCoreConfig, load
from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.trace_socket import SOCKET, ask
from modules.printing.terminal import complain


def dump(chosen: argparse.Namespace) -> int:
    """Prints the path of the file; what is said about it goes to standard error."""
    try:
        config = load(chosen.config).config if chosen.config else EdgeCoreConfig.embedded(chosen.root or default_root())
        answer = ask(config.modules.edged.root_directory / SOCKET)
        if "error" in answer:
            raise TraceError("edgecore could not write its flight recorder", str(answer["error"]))
        path = Path(answer["path"])
        if chosen.output:
            path = _copy(path, chosen.output)
    except ConfigError as error:
        for problem in error.problems:
            _say(f"error: {problem.render(error.source)}")
        return ExitCode.CONFIGURATION
    except (TraceError, OSError) as error:
        _say(f"error: {error}")
        return ExitCode.START_FAILED
    _say(f"{answer['records']} records")
    sys.stdout.write(f"{path}\n")
    return ExitCode.OK


def _copy(source: Path, target: Path) -> Path:
    """The owner's alone, as the file itself."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as copy, source.open("rb") as original:
        shutil.copyfileobj(original, copy)
    return target


def _say(text: str) -> None:
    complain("edgecore", text)
