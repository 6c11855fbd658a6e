"""The command line of edgecore.

Each command is given as `module:function` and imported when it runs. So `edgecore version` and `edgecore config` do not
load the bus, gRPC or the database, a broken installation of one of them does not prevent the check of a file, and the
agent does not load code that only prints.

Results go to standard output, remarks and errors to standard error; `docs/exit-codes.md` lists the exit statuses.
"""

from __future__ import annotations

import argparse
import os
import sys
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from modules.processes.edgecore import (
    backup,
    completion,
    doctor,
    local,
    store_commands,
    trace_commands,
    uninstall,
    unit_command,
    version_command,
)
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, Problem, verify
from modules.processes.edgecore.config.dangers import is_unisolated_root
from modules.processes.edgecore.config.durations import parse_size
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.location import add_location, node_location
from modules.processes.edgecore.trace_commands import replaying
from modules.tools.kubectl.cli import add_help, arranged
from modules.tools.kubectl.parser import VerbParser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from modules.processes.edgecore.location import NodeLocation

PROCESS: Final = "modules.processes.edgecore.process:run"
"""The function that runs the node; a `RunProcess`."""

VALUES: Final = "modules.processes.edgecore.completion_values:node_values"
"""The function that returns the values that a shell completes."""

CONFIG_COMMANDS: Final = "modules.processes.edgecore.config_commands"
"""Module of the commands of `edgecore config`."""


_LEAST: Final = 1 << 20
"""Smallest limit of a recording, in bytes."""

FAULT_PROFILES: Final = ("none", "link", "process", "disk", "runtime", "cloud", "api", "all")
"""Values of `modules.tools.simulate.draw.FaultProfile`, repeated here to save its import."""


_KUBEEDGE_OPTIONS: Final = {
    "--config": "edgecore run --config FILE",
    "--minconfig": "edgecore config minimal",
    "--defaultconfig": "edgecore config default",
}
"""Options of KubeEdge's edgecore, which has no commands, and what they are here."""


class LogLevel(StrEnum):
    """How much `run` logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Form of the lines that `run` logs; those of `beehive.log_lines.LogFormat`, whose import would load the bus."""

    TEXT = "text"
    JSON = "json"


class Recording(NamedTuple):
    """Destination of `run --record`."""

    path: Path
    """File or directory."""
    limit: int | None
    """Largest size in bytes; None for the default."""


class RunProcess(Protocol):
    """Type of `modules.processes.edgecore.process.run`."""

    def __call__(
        self, config: EdgeCoreConfig, *, log_level: LogLevel, log_format: LogFormat, record: Recording | None
    ) -> int:
        """Run the node until a signal stops it; return the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Usage errors end the process."""
    chosen = _chosen(sys.argv[1:] if arguments is None else list(arguments))
    try:
        status = cast("Callable[[argparse.Namespace], int]", _imported(chosen.command))(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return ExitCode.OK
    return status


def _chosen(words: list[str]) -> argparse.Namespace:
    """Return what the command line says. The parsers end with this function: `run` does not carry them."""
    parser, commands = command_line(None if completion.is_requested() else words)
    if completion.is_requested():
        completion.answer(parser, cast("Callable[[], dict[str, completion.Completer]]", _imported(VALUES))())
    if words and words[0] in _KUBEEDGE_OPTIONS and not commands.choices.keys() & set(words):
        parser.error(f"a command is wanted: {_KUBEEDGE_OPTIONS[words[0]]}")
    return parser.parse_args(arranged(parser, commands, words))


def command_line(words: Sequence[str] | None = None) -> tuple[VerbParser, argparse._SubParsersAction[Any]]:
    """Return the parser and its commands; of kubectl's verbs those in `words` have options, all of them for None."""
    parser = VerbParser(prog="edgecore", description="An edge node agent for Kubernetes.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands.add_parser("run", help="run this machine as an edge node until SIGTERM or SIGINT"))
    _add_join(commands.add_parser("join", help="make this machine a node of a cloud: certificate and configuration"))
    _add_config(commands.add_parser("config", help="print or check a configuration file"))
    trace_commands.add(commands.add_parser("trace", help="look into recorded messages"))
    store_commands.add(commands.add_parser("store", help="what the node remembers: list, get, history, diff"))
    replaying.add_replay(commands.add_parser("replay", help="run today's code on what a trace says, and compare"))
    _add_simulate(commands.add_parser("simulate", help="run whole nodes and their cloud in virtual time, with faults"))
    doctor.add(commands.add_parser("doctor", help="say what is wrong with this node, and what to do about it"))
    backup.add(commands)
    uninstall.add(commands)
    unit_command.add(commands)
    completion.add(parser, commands)
    version_command.add(parser, commands)
    add_help(parser, commands)
    local.add(commands, words)
    return parser, commands


def _add_run(parser: VerbParser) -> None:
    parser.hint = "it runs the node; a pod is made in the cloud: `cloudcore create pod NAME --image=IMAGE`"
    add_location(parser)
    parser.add_argument(
        "--allow-unisolated-root",
        action="store_true",
        help="run as root with the embedded runtime and a cloud without TLS: whoever answers there is root here",
    )
    levels = [level.value for level in LogLevel]
    parser.add_argument("--log-level", choices=levels, default=LogLevel.INFO.value, help="default: info")
    forms = [form.value for form in LogFormat]
    parser.add_argument(
        "--log-format", choices=forms, default=LogFormat.TEXT.value, help="json: one object a line (default: text)"
    )
    parser.add_argument(
        "--record",
        metavar="FILE|DIR",
        help="record everything to a file, or in parts to a directory (one that exists, or a name that ends in /)",
    )
    parser.add_argument(
        "--record-limit",
        type=_size,
        metavar="SIZE",
        help="bytes that the recording may take, such as 64Mi: a file ends there (default 256Mi), of a directory the "
        "oldest parts go (default 1Gi)",
    )
    parser.set_defaults(command=f"{__name__}:run")


def _size(text: str) -> int:
    """Parse a number of bytes of at least `_LEAST`."""
    try:
        size = parse_size(text)
    except ValueError:
        size = 0
    if size < _LEAST:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of at least 1Mi, such as 64Mi or 1Gi")
    return size


def _add_join(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cloud", required=True, metavar="HOST[:PORT]", help="cloudcore's websocket (port 10000)")
    parser.add_argument("--token", required=True, metavar="T|-", help="of the cloud; - reads it from standard input")
    parser.add_argument("--http-server", metavar="URL", help="of certificates (default: https://HOST:10002)")
    parser.add_argument("--name", metavar="NODE", help="of the node (default: the configured one, or the host's)")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="written; one that exists is changed, and kept beside it (default: the file that `edgecore run` reads "
        "with the same --root or without one; for root a new one is /etc/kubeedge/config/edgecore.yaml)",
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="a new file is for the embedded runtime, below DIR")
    parser.set_defaults(command="modules.processes.edgecore.join:join")


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many, from the first on (default 1)")
    parser.add_argument("--nodes", type=int, default=1, metavar="M", help="nodes of one cloud (default 1)")
    parser.add_argument("--hours", type=float, default=240 / 3600, metavar="H", help="of faults (default 4 minutes)")
    parser.add_argument("--pods", type=int, default=5, metavar="N", help="pods of each node (default 5)")
    parser.add_argument(
        "--hostile-node", dest="hostile", action="store_true", help="a node beside them that means harm"
    )
    parser.add_argument("--faults", choices=FAULT_PROFILES, default="all", help="which faults are drawn (default all)")
    parser.add_argument(
        "--cloud",
        choices=("embedded", "cluster"),
        default="embedded",
        help="the API server in cloudcore (default), or that of a cluster beside it, as always with --faults api",
    )
    parser.add_argument("--cores", type=int, default=0, metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="run a plan that a failure left, and nothing else")
    parser.add_argument(
        "--out", type=Path, default=Path("simulate"), metavar="DIR", help="for plans, logs and traces of failures"
    )
    parser.set_defaults(command="modules.tools.simulate.commands:simulate")


def _add_config(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    default = commands.add_parser("default", help="print every key with its default, commented")
    default.add_argument(
        "--profile", choices=("saver",), help="with the settings of a purpose: saver for metered links"
    )
    default.set_defaults(command=f"{CONFIG_COMMANDS}:default")
    minimal = commands.add_parser("minimal", help="print the few keys that one sets, commented")
    minimal.set_defaults(command=f"{CONFIG_COMMANDS}:minimal")
    check = commands.add_parser("check", help="say what is wrong with a file, and which of its keys have no effect")
    check.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: the one that `run` reads")
    add_location(check)
    check.set_defaults(command=f"{CONFIG_COMMANDS}:check")


def run(chosen: argparse.Namespace) -> int:
    """Make the configuration and run the node; return its exit status."""
    say = _sayer(LogFormat(chosen.log_format))
    try:
        location = node_location(chosen)
        config = _configured(location, say)
        refuse_unisolated_root(config, str(location.file or "edgecore run"), allowed=chosen.allow_unisolated_root)
    except ConfigError as error:
        for problem in error.problems:
            say(f"error: {problem.render(error.source)}")
        return ExitCode.CONFIGURATION
    process = cast("RunProcess", _imported(PROCESS))
    try:
        path = recording_path(chosen.record)
        record = None if path is None else Recording(path, chosen.record_limit)
    except OSError as error:
        say(f"error: --record {chosen.record}: {error.strerror}")
        return ExitCode.START_FAILED
    log_format = LogFormat(chosen.log_format)
    return process(config, log_level=LogLevel(chosen.log_level), log_format=log_format, record=record)


def refuse_unisolated_root(config: EdgeCoreConfig, source: str, *, allowed: bool) -> None:
    """Refuse to give root on this machine to whichever server answers on the cloud's address, unless the user allows
    it.

    Raises:
        ConfigError: edgecore runs as root, with the embedded runtime and without TLS.
    """
    if allowed or config.modules.edged.allow_unisolated_root or not is_unisolated_root(config, os.geteuid()):
        return
    server = config.modules.edge_hub.websocket.server
    text = f"as root with the embedded runtime and without TLS, whoever answers on {server} would be root here"
    hint = (
        "run as another user, use containerd, or `edgecore join` a cloud with TLS; "
        "--allow-unisolated-root, for a machine that may be lost"
    )
    raise ConfigError(source, (Problem(path="", text=text, hint=hint, check="unisolated-root"),))


def recording_path(text: str | None) -> Path | None:
    """Return the absolute path in `--record`, None without one. A directory, which ends in `/`, is made.

    Raises:
        OSError: the directory cannot be made.
    """
    if not text:
        return None
    path = Path(text)
    if text.endswith("/"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path.absolute()


def _configured(location: NodeLocation, say: Callable[[str], None]) -> EdgeCoreConfig:
    loaded = location.load()
    if location.file is None:
        verify(loaded.config, loaded.source)
        say(f"no configuration file: embedded runtime (isolates nothing), everything below {location.root}")
        return loaded.config
    say(f"configuration {location.file}")
    for warning in loaded.warnings:
        say(f"warning: {warning.render(loaded.source)}")
    if loaded.without_effect:
        say(f"keys without effect: {len(loaded.without_effect)}; `edgecore config check {location.file}` names them")
    return loaded.config


def _imported(name: str) -> object:
    """Import the object named `module:attribute`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _sayer(form: LogFormat) -> Callable[[str], None]:
    """Return the function that prints a remark before the node runs, in the form of its log."""
    if form is LogFormat.TEXT:
        return _say
    return cast("Callable[[str], None]", _imported("modules.processes.edgecore.logs:say_in_json"))


def _say(text: str) -> None:
    sys.stderr.write(f"edgecore: {text}\n")


def _forget_output() -> None:
    """Discard further output, also at interpreter exit, after the reader has gone (`edgecore config default |
    head`).
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
