"""The parts of a support bundle that are about the machine. Each is bounded in size and in time."""

import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

LARGEST: Final = 8 * 1024 * 1024
"""Bytes that are read of a file, or of a command's output."""
_SECONDS: Final = 20.0
_MOST_LINES: Final = 50_000
_MOST_GROUPS: Final = 2_000
_MOST_PROCESSES: Final = 4_000
_SYSTEM: Final = (
    "/proc/version", "/etc/os-release", "/proc/uptime", "/proc/loadavg", "/proc/meminfo", "/proc/pressure/cpu",
    "/proc/pressure/io", "/proc/pressure/memory", "/proc/swaps", "/proc/sys/fs/file-nr", "/proc/sys/kernel/pid_max",
    "/proc/sys/vm/overcommit_memory", "/proc/self/cgroup", "/proc/cgroups", "/proc/filesystems",
)  # fmt: skip
_NETWORK: Final = (
    "/proc/net/dev", "/proc/net/route", "/proc/net/ipv6_route", "/proc/net/if_inet6", "/proc/net/fib_trie",
    "/proc/net/sockstat", "/proc/sys/net/ipv4/ip_forward", "/etc/resolv.conf", "/etc/hosts",
)  # fmt: skip
_OUT_OF_MEMORY: Final = ("out of memory", "oom", "killed process")
_OF_A_GROUP: Final = ("memory.current", "memory.max", "memory.events", "cpu.stat", "pids.current")


def system() -> str:
    """Return the kernel, its memory, load and limits."""
    return _texts(_SYSTEM)


def network() -> str:
    """Return interfaces, addresses, routes and name servers."""
    return _texts(_NETWORK)


def disks(directories: Iterable[Path]) -> str:
    """Return the mounts, and the free space of the file systems of some directories."""
    lines = []
    for directory in directories:
        with suppress(OSError):
            there = next(each for each in (directory, *directory.parents) if each.exists())
            used, status = shutil.disk_usage(there), os.statvfs(there)
            inodes = f"{status.f_favail} of {status.f_files} inodes"
            lines.append(f"{directory}: free are {used.free >> 20} of {used.total >> 20} MiB, {inodes}")
    return "\n".join([*lines, "", _texts(("/proc/mounts",))])


def processes() -> str:
    """Return the processes: id, parent, state, resident memory, name."""
    lines = ["PID PPID STATE RSS-KIB NAME"]
    for directory in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name))[:_MOST_PROCESSES]:
        with suppress(OSError, ValueError, KeyError):
            status = (directory / "status").read_text(errors="replace")
            fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            memory = fields.get("VmRSS", "0").split()[0]
            state, parent = fields["State"].split()[0], fields["PPid"].strip()
            lines.append(f"{directory.name} {parent} {state} {memory} {fields['Name'].strip()}")
    return "\n".join([*lines, ""])


def cgroups() -> str:
    """Return the control groups of version 2 with their usage."""
    root, lines = Path("/sys/fs/cgroup"), []
    for number, (directory, names, _) in enumerate(os.walk(root)):
        names.sort()
        if number >= _MOST_GROUPS:
            lines.append(f"and more than {_MOST_GROUPS} others")
            break
        values = [f"{name}: {' '.join(text.split())}" for name in _OF_A_GROUP if (text := _text(Path(directory, name)))]
        lines.append(f"/{Path(directory).relative_to(root)}  {'; '.join(values)}")
    return "\n".join([*lines, ""])


def log(unit: str, seconds: float) -> str:
    """Return the log of a unit of systemd, the newest line first. Raises OSError if there is none."""
    return _journal("--unit", unit, seconds=seconds)


def kernel(seconds: float) -> str:
    """Return the kernel's lines about memory that ran out, the newest line first.

    Raises:
        OSError: its log cannot be read.
    """
    try:
        text = _journal("--dmesg", seconds=seconds)
    except OSError:
        text = command(("dmesg", "--time-format=iso"))
    lines = (line for line in text.splitlines() if any(word in line.lower() for word in _OUT_OF_MEMORY))
    return "".join(f"{line}\n" for line in lines) or "nothing\n"


def command(words: Sequence[str]) -> str:
    """Return the output of a command; of a longer one the end is left out.

    Raises:
        OSError: there is no such program, it fails, or takes too long.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as process:
        try:
            output = _output(process)
        finally:
            process.kill()
    text = output.decode(errors="replace")
    if process.returncode and len(output) < LARGEST:
        raise OSError(f"`{words[0]}`: {text.strip()[-300:] or process.returncode}")
    return text


def _output(process: subprocess.Popen[bytes]) -> bytes:
    """Return the output of a process, until it ends. Raises TimeoutError."""
    assert process.stdout is not None, "it is a pipe"  # noqa: S101 - for the type
    pipe, deadline, output = process.stdout.fileno(), time.monotonic() + _SECONDS, bytearray()
    while len(output) < LARGEST:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError("a command takes too long")
        piece = os.read(pipe, 64 * 1024)
        if not piece:
            process.wait(_SECONDS)
            break
        output += piece
    return bytes(output[:LARGEST])


def tail(path: Path) -> str:
    """Return the last part of a log file. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LARGEST))
        return file.read(LARGEST).decode(errors="replace")


def _journal(*words: str, seconds: float) -> str:
    form = ("--reverse", f"--lines={_MOST_LINES}", "--no-pager", "--quiet", "--output=short-iso")
    return command(("journalctl", *words, f"--since=-{seconds:.0f}s", *form))


def _texts(paths: Iterable[str]) -> str:
    return "\n".join(_titled(paths))


def _titled(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if text := _text(Path(path)):
            yield f"== {path}\n{text}"


def _text(path: Path) -> str:
    """Return the text of a small file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST // 8).decode(errors="replace")
    except OSError:
        return ""
