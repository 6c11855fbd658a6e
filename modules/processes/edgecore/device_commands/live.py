"""The commands `edgecore devices set|watch`, by the running edgecore."""

import argparse
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.edge.devicetwin.feed import TwinChange
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import remark, with_query
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.device_commands.commands import devices_of
from modules.processes.edgecore.local.node import node_of, report_errors
from modules.processes.edgecore.socket_path import DEVICES_PATH
from modules.processes.edgecore.store_commands.shared import seconds_of

_FORM: Final = "edgecore devices set default/thermo threshold=30 (threshold- gives it back to the cloud)"
_LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a change; a value has 64 Ki characters at most."""


def set_values(chosen: argparse.Namespace) -> int:
    """Set desired values; all of them or none."""
    with report_errors():
        wanted = read_assignments(chosen.assignments)
        path = with_query(DEVICES_PATH, [("device", chosen.device)])
        b"".join(node_of(chosen).stream(path, method="PATCH", body=msgspec.json.encode(wanted)))
    if chosen.json:
        print_json({"device": chosen.device, "desired": wanted})
        return ExitCode.OK
    for name, value in wanted.items():
        what = "desired as by the cloud" if value is None else f"{value} is desired until the cloud desires another"
        print_lines([f"{chosen.device} {name}: {what}"])
    return ExitCode.OK


def watch(chosen: argparse.Namespace) -> int:
    """Print changes until the user or edgecore ends."""
    with report_errors():
        query = [("device", chosen.device)] if chosen.device else []
        path = with_query(DEVICES_PATH, query)
        for change in _changes(node_of(chosen).stream(path, patient=True)):
            if change.what == "watching":
                _remark_begin(chosen)
            elif chosen.json:
                print_json(change)
                print_lines([])
            else:
                print_lines([line_of(change)])
        raise NodeError("edgecore has ended")


def read_assignments(words: Iterable[str]) -> dict[str, str | None]:
    """Return the values in `PROPERTY=VALUE`, None for `PROPERTY-`. Raises NodeError for other words."""
    found: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and word.endswith("-"):
            name = word[:-1]
        if not name or not (equals or word.endswith("-")):
            raise NodeError("PROPERTY=VALUE is wanted", word, _FORM, usage=True)
        if name in found:
            raise NodeError("a property is set twice", name, usage=True)
        found[name] = value if equals else None
    return found


def line_of(change: TwinChange) -> str:
    """Return a change in words."""
    match change.what:
        case "lost":
            return f"{change.lost} changes were too many to be shown"
        case "added" | "removed":
            return f"{change.device} {change.what}"
        case "state":
            return f"{change.device} state {_step(change)}"
        case _:
            by = f" by {change.by}" if change.by else ""
            at = f"{seconds_of(change.time)}Z"
            return f"{at} {change.device} {change.property} {change.what}{by} {_step(change)}"


def _step(change: TwinChange) -> str:
    value = (change.value or "-")[:200]
    if change.before == change.value:
        return f"{value} again"
    return value if change.before is None else f"{change.before[:200] or '-'} → {value}"


def _changes(pieces: Iterable[bytes]) -> Iterator[TwinChange]:
    """Yield the changes in the pieces of a stream of lines."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield decode_json(line, TwinChange)
        if len(rest) > _LONGEST_LINE:
            raise NodeError("edgecore sends a line without an end")


def _remark_begin(chosen: argparse.Namespace) -> None:
    """Say that the watch has begun; and, if the database can be read, that its device does not exist."""
    remark(f"watching {chosen.device or 'all devices'}; Ctrl-C ends it")
    with suppress(BeehiveError, ConfigError):
        there = [one.id for one in devices_of(chosen)]
        if chosen.device and chosen.device not in there:
            remark(
                f"there is no device {chosen.device} yet; the node's devices are: {', '.join(there)[:500] or 'none'}"
            )
