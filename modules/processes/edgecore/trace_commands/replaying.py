"""Arguments of `edgecore replay` and `edgecore trace record-fixture`."""

import argparse
import re
from pathlib import Path
from typing import Any, Final

from modules.processes.common.durations import seconds_option

COMMANDS: Final = "modules.lab.replay.commands"
"""Module of the commands."""

MODULES: Final = ("metamanager", "edged", "edgehub", "websocket", "devicetwin", "cloudhub")
"""Values of `--module`; `edgehub` is named `websocket` on the bus."""

_SPEED = re.compile(r"(?:\d+(?:\.\d+)?)x")


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `edgecore replay`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="what `edgecore run --record` wrote, or a capture")
    _add_module(parser)
    parser.add_argument("--speed", type=_speed, default="max", metavar="1x|10x|max", help="default: max")
    parser.add_argument(
        "--until", type=seconds_option, metavar="DURATION", help="since the trace began; default: to its end"
    )
    parser.add_argument("--check", action="store_true", help="exit status 7 when anything is different")
    parser.add_argument("--names", action="store_true", help="print only the kinds of decisions that differ")
    parser.set_defaults(command=f"{COMMANDS}:run")


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `record-fixture` to the commands of `edgecore trace`."""
    parser = commands.add_parser("record-fixture", help="make a small trace of one pod, as today's code does it")
    parser.add_argument("file", type=Path, metavar="FILE", help="what `edgecore run --record` wrote")
    parser.add_argument("pod", metavar="NAMESPACE/NAME", help="the pod whose causes are kept")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="written anew")
    parser.set_defaults(command=f"{COMMANDS}:record_fixture")


def _add_module(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--module", choices=MODULES, help="replay it alone; default: the whole node")


def _speed(text: str) -> str:
    if text != "max" and (not _SPEED.fullmatch(text) or float(text[:-1]) <= 0):
        raise argparse.ArgumentTypeError(f"got {text}, want 1x, 10x, … or max")
    return text
