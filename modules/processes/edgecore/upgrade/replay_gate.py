"""The replay gate: a new version must decide as the current one did in the node's recordings.

The new version replays what `edgecore run --record` and the flight recorder have left, by its own `edgecore replay`.
What differs also with the current version, such as what a busy machine has caused, does not count. Both run at the
lowest priority, within bounds of time and memory.
"""

import os
import resource
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from modules.processes.common.exit_codes import ExitCode

LARGEST_RECORDING: Final = 64 * 1024 * 1024
"""Bytes of a recording that is replayed: it is in memory as a whole."""
MOST_RECORDINGS: Final = 16
MOST_MEMORY: Final = 1024 * 1024 * 1024
"""Bytes that a replay may allocate."""
FAILS: Final = "replay fails"
"""Name of the difference that the new version cannot replay what the current one can."""
_LOWEST: Final = 19
_LARGEST_OUTPUT: Final = 1024 * 1024


class GateResult(NamedTuple):
    """Result of replays."""

    replayed: int
    """Recordings that the new version has replayed."""
    left_out: dict[str, str]
    """Why others were not, by their names."""
    differences: dict[str, str]
    """Kinds of decisions that differ, each with a recording that shows it."""


def recordings(arguments: Sequence[str], directory: Path, root: Path) -> list[Path]:
    """Return the recordings of a node, the newest first.

    Args:
        arguments: of the `edgecore run` that runs.
        directory: its working directory.
        root: edged's root directory, where the flight recorder leaves its files.
    """
    found = [*root.glob("traces/*.trace")]
    for option, value in zip(arguments, [*arguments[1:], ""], strict=False):
        path = value if option == "--record" else option.removeprefix("--record=") if "--record=" in option else ""
        if path:
            named = directory / path
            found += named.glob("*.trace") if named.is_dir() else [named] if named.is_file() else []
    with suppress(OSError):
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return found[:MOST_RECORDINGS]


def compare(new: Path, current: Path, traces: Iterable[Path], seconds: float) -> GateResult:
    """Let a new version replay recordings, and the current one those where that differs.

    Args:
        new, current: programs of the versions.
        traces: the recordings.
        seconds: limit for all of them.
    """
    deadline = time.monotonic() + seconds
    result = GateResult(0, {}, {})
    for trace in traces:
        if trace.stat().st_size > LARGEST_RECORDING:
            result.left_out[trace.name] = f"larger than {LARGEST_RECORDING >> 20} MiB"
            continue
        names = _replayed(new, trace, deadline)
        if isinstance(names, set) and not names:
            result = result._replace(replayed=result.replayed + 1)
            continue
        known = _replayed(current, trace, deadline)
        if isinstance(known, str):
            result.left_out[trace.name] = known
            continue
        for name in {FAILS} if isinstance(names, str) else names - known:
            result.differences.setdefault(name, trace.name)
        result = result._replace(replayed=result.replayed + 1)
    return result


def _replayed(program: Path, trace: Path, deadline: float) -> set[str] | str:
    """Return the names of the differences, or why it was not replayed."""
    left = deadline - time.monotonic()
    if left <= 0:
        return "no time was left"
    command = [str(program), "replay", str(trace), "--check", "--names"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST)
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
            output, errors = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            return "it takes too long"
        finally:
            process.kill()
    if process.returncode in (ExitCode.OK, ExitCode.DIFFERENT):
        return set(output[:_LARGEST_OUTPUT].decode(errors="replace").splitlines())
    return errors.decode(errors="replace").strip()[-200:] or f"exit status {process.returncode}"
