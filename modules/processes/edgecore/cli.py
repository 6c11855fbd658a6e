"""The command line of edgecore.

Each command is given as `module:function` and imported when it runs. So `edgecore version` and `edgecore config` do not
load the bus, gRPC or the database, a broken installation of one of them does not prevent the check of a file, and the
agent does not load code that only prints. The arguments of `run` are here, and all others are in `other_commands`,
which a node that starts does not load.

Results go to standard output, remarks and errors to standard error; `docs/doctor.md` lists the exit statuses.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from modules.apimachinery.attempts import AttemptError
from modules.cli.parser import VerbParser, make_only
from modules.processes.common import completion
from modules.processes.common.durations import parse_size
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.output import forget_output
from modules.processes.common.start_collector import collect_once
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, Problem, verify
from modules.processes.edgecore.config.dangers import is_unisolated_root
from modules.processes.edgecore.location import NodeLocation, add_location, node_location
from modules.processes.edgecore.rootless import enter_namespaces
from modules.processes.edgecore.starting import hold_start
from protos.postponed import hash_without_openssl

PROCESS: Final = "modules.processes.edgecore.process:run"
"""The function that runs the node; a `RunProcess`."""


VALUES: Final = "modules.processes.edgecore.completion_values:node_values"
"""The function that returns the values that a shell completes."""

_LEAST: Final = 1 << 20
"""Smallest limit of a recording, in bytes."""

_KUBEEDGE_OPTIONS: Final = {
    "--config": "edgecore run --config FILE",
    "--minconfig": "edgecore config minimal",
    "--defaultconfig": "edgecore config default",
}
"""Options of KubeEdge's edgecore, which has no commands, and what they are here."""


class LogLevel(StrEnum):
    """Amount that `run` logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Form of the lines that `run` logs; as `beehive.log_lines.LogFormat`, whose import would load the bus."""

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
        self,
        config: EdgeCoreConfig,
        *,
        log_level: LogLevel,
        log_format: LogFormat,
        record: Recording | None,
        starting: ExitStack,
    ) -> int:
        """Run the node until a signal stops it; return the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Usage errors end the process."""
    chosen = _chosen(sys.argv[1:] if arguments is None else list(arguments))
    try:
        status = _command(chosen.command)(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        return ExitCode.OK
    return status


def _chosen(words: list[str]) -> argparse.Namespace:
    """Return the parsed command line. The parsers are freed with this function, so that `run` does not keep them."""
    if words[:1] == ["run"] and not completion.is_requested():
        return _program()[0].parse_args(words)
    from modules.kubectl.cli import arranged  # noqa: PLC0415 - a node that starts does not load it

    parser, commands = command_line(None if completion.is_requested() else words)
    if completion.is_requested():
        completion.answer(parser, cast("Callable[[], dict[str, completion.Completer]]", _imported(VALUES))())
    if words and words[0] in _KUBEEDGE_OPTIONS and not commands.choices.keys() & set(words):
        parser.error(f"a command is required: {_KUBEEDGE_OPTIONS[words[0]]}")
    return parser.parse_args(arranged(parser, commands, words or ["--help"]))


def command_line(words: Sequence[str] | None = None) -> tuple[VerbParser, argparse._SubParsersAction[Any]]:
    """Return the parser and its commands; only those in `words` are made, or all of them for None."""
    from modules.processes.edgecore import other_commands  # noqa: PLC0415 - a node that starts does not load it

    parser, commands = _program()
    make_only(commands, words)
    other_commands.add(parser, commands, words)
    return parser, commands


def _program() -> tuple[VerbParser, argparse._SubParsersAction[Any]]:
    """Return the parser with the command `run` alone."""
    parser = VerbParser(prog="edgecore", description="An edge node agent for Kubernetes.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands.add_parser("run", help="run this machine as an edge node until SIGTERM or SIGINT"))
    return parser, commands


def _add_run(parser: VerbParser) -> None:
    parser.hint = "it runs the node; a pod is made in the cloud: `cloudcore create pod NAME --image=IMAGE`"
    add_location(parser)
    parser.add_argument(
        "--allow-unisolated-root",
        action="store_true",
        help="run as root without a configuration file, or with the process runtime, and a cloud without TLS: whoever "
        "answers there is root here",
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


def run(chosen: argparse.Namespace) -> int:
    """Make the configuration and run the node; return its exit status."""
    say = _sayer(LogFormat(chosen.log_format))
    starting = ExitStack()
    try:
        location = node_location(chosen)
        hold_start(location, starting, Path(sys.prefix))
        config = _configured(location, say)
        source, has_file = str(location.file or "edgecore run"), location.file is not None
        refuse_unisolated_root(config, source, allowed=chosen.allow_unisolated_root, has_file=has_file)
        config = config if location.root is None or location.file else _with_kept_runtime(location.root, say)
        enter_namespaces(config)
    except ConfigError as error:
        for problem in error.problems:
            say(f"error: {problem.render(error.source)}")
        return ExitCode.CONFIGURATION
    except AttemptError as error:
        say(f"error: cannot start: {error}")
        return ExitCode.START_FAILED
    collect_once()
    hash_without_openssl()
    process = cast("RunProcess", _imported(PROCESS))
    try:
        path = recording_path(chosen.record)
        record = None if path is None else Recording(path, chosen.record_limit)
    except OSError as error:
        say(f"error: --record {chosen.record}: {error.strerror}")
        return ExitCode.START_FAILED
    level, form = LogLevel(chosen.log_level), LogFormat(chosen.log_format)
    return process(config, log_level=level, log_format=form, record=record, starting=starting)


def refuse_unisolated_root(config: EdgeCoreConfig, source: str, *, allowed: bool, has_file: bool) -> None:
    """Refuse to give root on this machine to whichever server answers on the cloud's address, unless the user allows
    it.

    Raises:
        ConfigError: edgecore runs as root, without TLS, and with the process runtime or without a configuration file.
    """
    allowed = allowed or config.modules.edged.allow_unisolated_root
    if allowed or not is_unisolated_root(config, os.geteuid(), has_file=has_file):
        return
    server = config.modules.edge_hub.websocket.server
    text = f"as root without TLS, whoever answers on {server} would be root here"
    hint = (
        "run as another user, or `edgecore join` a cloud with TLS; --allow-unisolated-root, for a machine that may be "
        "lost"
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
    if location.file is None and location.root is not None:
        config = EdgeCoreConfig.below(location.root)
        verify(config, f"--root {location.root}")
        return config
    loaded = location.load()
    say(f"configuration {location.file}")
    for warning in loaded.warnings:
        say(f"warning: {warning.render(loaded.source)}")
    if loaded.without_effect:
        say(f"keys without effect: {len(loaded.without_effect)}; `edgecore config check {location.file}` names them")
    return loaded.config


def _with_kept_runtime(root: Path, say: Callable[[str], None]) -> EdgeCoreConfig:
    """Return the configuration of a node without a file, with the container runtime of its first start, maybe this."""
    from modules.processes.edgecore import runtime_choice  # noqa: PLC0415 - a node with a file does without

    endpoint, missing = runtime_choice.kept_runtime(root), None
    if not endpoint:
        endpoint, missing = runtime_choice.choose_runtime(root)
        with suppress(OSError):  # what comes next cannot be written either, and says it
            runtime_choice.keep_runtime(root, endpoint)
    config = runtime_choice.configured_below(root, endpoint)
    what = "process runtime (isolates nothing)" if config.uses_process_runtime else f"isolated containers ({endpoint})"
    say(f"no configuration file: {what}, everything below {root}")
    if missing is not None:
        say(f"containers are not isolated: {missing}; then `edgecore reset --runtime` lets the next start choose again")
    return config


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    """Import the function of a command; without edgecore-lab, a command of the lab only asks for it."""
    try:
        return cast("Callable[[argparse.Namespace], int]", _imported(name))
    except ModuleNotFoundError as error:
        from modules.processes.common import without_lab  # noqa: PLC0415 - only here

        if not without_lab.is_why(error):
            raise
        return partial(without_lab.refuse, "edgecore")


def _imported(name: str) -> object:
    """Import the object named `module:attribute`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _sayer(form: LogFormat) -> Callable[[str], None]:
    """Return the function that prints a remark before the node runs, in the form of its log."""
    if form is LogFormat.TEXT:
        return _print_remark
    return cast("Callable[[str], None]", _imported("modules.processes.edgecore.logs:print_remark_as_json"))


def _print_remark(text: str) -> None:
    sys.stderr.write(f"edgecore: {text}\n")
