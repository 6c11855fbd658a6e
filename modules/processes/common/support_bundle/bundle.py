"""Gathers the parts of a support bundle, and writes the file."""

import argparse
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from time import gmtime, strftime
from typing import Any, Final, NamedTuple

import msgspec

from beehive import Clock
from beehive.trace.redact import Redactor
from beehive.trace.secret_forms import without_secrets
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.common.at_once import at_once
from modules.processes.common.backup.archive import Part, check_room, write_archive
from modules.processes.common.backup.commands import head_of
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.durations import parse_duration
from modules.processes.common.support_bundle import machine
from modules.processes.common.version_command import versions

SECONDS: Final = 60.0
"""Limit for all parts together."""
LARGEST_TEXT: Final = 8 * 1024 * 1024
"""Characters of a text; of a longer one the end is left out."""
LARGEST_FILE: Final = 32 * 1024 * 1024
"""Bytes of a file that is taken as it is, such as a trace."""
_LONGEST_SINCE: Final = 366 * 86400.0


class SupportPart(NamedTuple):
    """A file in a support bundle."""

    name: str
    about: str
    """What it has, in words."""
    read: Callable[[], str | Path]
    """Return its text, or a file without secrets that is taken as it is; any error becomes a line in the bundle."""


def common_parts(program: str, chosen: argparse.Namespace, unit: str, directories: Iterable[Path]) -> list[SupportPart]:
    """Return the parts that both programs have.

    Args:
        program: edgecore or cloudcore.
        chosen: the arguments.
        unit: of systemd that runs the program.
        directories: whose file systems matter.

    Raises:
        BackupError: the arguments are wrong.
    """
    since = _since(chosen.since)
    about = f"versions of {program}, Python, the system and all that is installed beside it"
    parts = [
        SupportPart("versions.json", about, partial(_versions, program)),
        SupportPart("machine/system.txt", "kernel, memory, load, pressure and limits", machine.system),
        SupportPart("machine/disks.txt", "mounts, free space of the directories", partial(machine.disks, directories)),
        SupportPart("machine/network.txt", "interfaces, addresses, routes, name servers", machine.network),
        SupportPart("machine/processes.txt", "processes by name, with memory; no command lines", machine.processes),
        SupportPart("machine/cgroups.txt", "control groups, with memory and processor time", machine.cgroups),
    ]
    if not chosen.no_logs:
        parts += [
            SupportPart(f"logs/{unit}.txt", f"log of {unit}, the newest line first", partial(machine.log, unit, since)),
            SupportPart(
                "logs/kernel.txt", "what the kernel said of memory that ran out", partial(machine.kernel, since)
            ),
        ]
    return parts


def make_bundle(
    program: str, name: str, output: Path | None, parts: Sequence[SupportPart], redactor: Redactor, clock: Clock
) -> None:
    """Print what the bundle will have, gather it, and write the file.

    Args:
        program: edgecore or cloudcore.
        name: of the node; empty for a cloud.
        output: the file; None for a new one in the current directory.
        parts: what belongs into it.
        redactor: knows the secrets.
        clock: counts the time.

    Raises:
        BackupError: the file exists, there is no room for it, or it cannot be written.
    """
    stamp = strftime("%Y%m%dT%H%M%SZ", gmtime(clock.now()))
    target = output or Path(f"{program}-support-{f'{name}-' if name else ''}{stamp}.tar.gz")
    print_lines(f"{part.name}: {part.about}" for part in parts)
    found = at_once({part.name: partial(_read, part) for part in parts}, SECONDS, clock, "support")
    members, missing = [], {}
    for part in parts:
        read = found.get(part.name, OSError("it took too long"))
        if isinstance(read, Exception):
            missing[part.name] = without_secrets(str(read) or type(read).__name__, redactor)
        elif isinstance(read, Path):
            members.append(Part(part.name, read))
        else:
            members.append(Part(part.name, without_secrets(read, redactor).encode(errors="replace")))
    contents = [f"{part.name}: {part.about}" for part in parts if part.name not in missing]
    contents += [f"{each}: not there: {why}" for each, why in missing.items()]
    members.insert(0, Part("contents.txt", "\n".join([*contents, ""]).encode(errors="replace")))
    check_room(target.absolute().parent, sum(_size(member) for member in members))
    written = write_archive(target, head_of(f"{program} support-bundle", name), members, "bundle")
    for each, why in missing.items():
        print_error(program, f"not there: {each}: {why}")
    print_lines([f"{target}: {sum(part.size for part in written.parts) >> 10} KiB before packing"])
    print_error(program, "read it before you hand it on: it has names, addresses and command lines of your pods")


def as_json(value: Any) -> str:
    """Return a value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def _read(part: SupportPart) -> str | Path | Exception:
    try:
        found = part.read()
        if isinstance(found, Path) and found.stat().st_size > LARGEST_FILE:
            return OSError(f"{found} is larger than {LARGEST_FILE >> 20} MiB")
    except Exception as error:  # noqa: BLE001 - the others are wanted nevertheless
        return error
    return found if isinstance(found, Path) else found[:LARGEST_TEXT]


def _size(member: Part) -> int:
    return len(member.content) if isinstance(member.content, bytes) else member.content.stat().st_size


def _since(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        raise BackupError("no such duration", text, "30m and 24h are some") from None
    return min(seconds, _LONGEST_SINCE)


def _versions(program: str) -> str:
    beside = sorted({f"{each.name} {each.version}" for each in distributions()})
    found = {**versions(program), "system": " ".join(platform.uname()), "executable": sys.executable, "beside": beside}
    return as_json(found)
