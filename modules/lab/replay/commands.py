"""The commands `edgecore replay` and `edgecore trace record-fixture`, whose arguments `modules.processes.edgecore`
defines.

Differences go to standard output, remarks about the replay to standard error.
"""

import argparse
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from beehive import BeehiveError
from beehive.trace.writer import FileWriter
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.lab.replay.fixture import reduced, rerecorded
from modules.lab.replay.foreign import replay_capture
from modules.lab.replay.recorded import Recorded, load, load_runs
from modules.lab.replay.report import differences_text, figures_text
from modules.lab.replay.run import Pace, Replayed, replay
from modules.processes.common.exit_codes import ExitCode

_MODULES = {"edgehub": "websocket", "devicetwin": "twin"}
"""Names of modules on the bus that differ from their names on the command line."""


def run(chosen: argparse.Namespace) -> int:
    """Replay a trace and print the differences; with `--check`, any difference is exit status 7."""
    return _guarded(lambda: _run(chosen))


def record_fixture(chosen: argparse.Namespace) -> int:
    """Write a small trace of one pod, made by today's code, and print how it differs from the old one."""
    return _guarded(lambda: _record_fixture(chosen))


def _record_fixture(chosen: argparse.Namespace) -> int:
    namespace, _, name = chosen.pod.rpartition("/")
    old = reduced(load(chosen.file), namespace or "default", name)
    with directory() as root:
        new, result = rerecorded(old, root)
    print_lines(differences_text(old, result).splitlines())
    write_run(chosen.output, new)
    _print_remark(f"{chosen.output}: {len(new.records)} records, {chosen.output.stat().st_size} bytes")
    return ExitCode.OK


def write_run(path: Path, recorded: Recorded) -> None:
    """Write a run as a trace, replacing the file.

    Raises:
        TraceError: the trace cannot be written.
    """
    path.unlink(missing_ok=True)
    with closing(FileWriter(path, recorded.header)) as writer:
        writer.write(recorded.records)


def _run(chosen: argparse.Namespace) -> int:
    module = _MODULES.get(chosen.module, chosen.module or "")
    is_different = False
    for recorded in load_runs(chosen.file):
        _warn(recorded)
        result = replayed(recorded, module, chosen.until, pace_of(chosen.speed))
        if chosen.names:
            print_lines(sorted({one.name for one in result.differences}))
        else:
            print_lines(differences_text(recorded, result).splitlines())
        for reason, number in result.not_played.items():
            _print_remark(f"not played: {number} of {reason}")
        _print_remark(f"{f'run {recorded.number}: ' if recorded.number > 1 else ''}{figures_text(result)}")
        is_different |= bool(result.differences)
    return ExitCode.DIFFERENT if chosen.check and is_different else ExitCode.OK


def replayed(recorded: Recorded, module: str, until: float | None, pace: Pace | None) -> Replayed:
    """Replay a trace or a capture in a temporary directory."""
    with directory() as root:
        if recorded.foreign:
            return replay_capture(recorded, root, module, until=until, pace=pace)
        return replay(recorded, root, module, until=until, pace=pace)


def _warn(recorded: Recorded) -> None:
    for damage in recorded.damage:
        _print_remark(f"not replayed: {damage}")
    lost = sum(1 for note in recorded.notes("lost"))
    if lost:
        _print_remark(f"the trace has {lost} gaps: what was lost there may show as differences")


def pace_of(speed: str) -> Pace | None:
    """Return a function that slows virtual time to a speed such as `1x` or `10x`; None for `max`.

    It measures the machine's own time, because a person watches.
    """
    if speed == "max":
        return None
    factor = float(speed.removesuffix("x"))
    began: list[float] = []
    never = threading.Event()

    def pace(now: float) -> None:
        if not began:
            began.append(time.monotonic() - now / factor)
        ahead = began[0] + now / factor - time.monotonic()
        if ahead > 0:
            never.wait(ahead)

    return pace


@contextmanager
def directory() -> Iterator[Path]:
    """Make an empty directory for a replay, on a fast disk if there is one.

    Log lines of the replayed modules are suppressed; they were logged in the recorded run.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    fast = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it
    parent = fast if os.access(fast, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="edgecore-replay-", dir=parent) as name:
        yield Path(name)


def _guarded(command: Callable[[], int]) -> int:
    try:
        return command()
    except BrokenPipeError:
        raise
    except (BeehiveError, OSError) as error:
        _print_remark(f"error: {error}")
        return ExitCode.USAGE


def _print_remark(text: str) -> None:
    print_error("edgecore", text)
