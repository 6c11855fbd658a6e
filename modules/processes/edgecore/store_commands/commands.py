"""The commands `edgecore store list|get|history|diff|migrate`.

Secrets are shown as marks, also inside other objects; equal values have equal marks.
"""

import argparse
import difflib
from collections.abc import Sequence
from contextlib import closing

import msgspec
import yaml

from beehive.decoding import decode_json
from beehive.names import Operation
from beehive.trace.redact import Redactor
from metamanager.history import MARK_KEY
from metamanager.sqlite_open import open_file
from modules.apimachinery.printing.terminal import print_json, print_lines, print_yaml
from modules.processes.edgecore.store_commands.database import HistoryRow, StoredObject, StoreReadError, opened
from modules.processes.edgecore.store_commands.shared import database_command, print_table, seconds_of


@database_command
def list_objects(chosen: argparse.Namespace) -> None:
    """List the stored objects."""
    with opened(chosen) as database:
        kind = database.kind_called(chosen.kind) if chosen.kind else ""
        objects = database.objects(kind, chosen.namespace)
    if chosen.json:
        _print_json([_described(each) for each in objects])
        return
    rows = [(each.key, _version(each.resource_version), str(len(each.value)), _time(each.updated)) for each in objects]
    print_table(("KEY", "VERSION", "SIZE", "UPDATED"), rows)


@database_command
def get(chosen: argparse.Namespace) -> None:
    """Print one object."""
    with opened(chosen) as database:
        stored = database.get(chosen.key)
    text = stored.value if chosen.show_secrets else _redacted(stored.key, stored.value)
    if chosen.json:
        print_json(_as_json(text))
    else:
        print_yaml(decode_json(_as_json(text)), width=120)


@database_command
def history(chosen: argparse.Namespace) -> None:
    """Print the last changes."""
    with opened(chosen) as database:
        changes = database.changes(chosen.key)
        if chosen.key and not changes:
            database.get(chosen.key)
    if chosen.json:
        _print_json([_change_document(each) for each in changes])
        return
    rows = [(str(each.id), _time(each.at), each.key, _what(each), each.cause, each.message or "-") for each in changes]
    print_table(("CHANGE", "TIME", "KEY", "STATE", "CAUSE", "MESSAGE"), rows)


@database_command
def diff(chosen: argparse.Namespace) -> None:
    """Print the difference between two states."""
    with opened(chosen) as database:
        old, new = _pair(database.changes(chosen.key), chosen)
    lines = difflib.unified_diff(_lines(old), _lines(new), _title(old), _title(new), lineterm="")
    print_lines(lines)


@database_command
def migrate(chosen: argparse.Namespace) -> None:
    """Give a copy of a database the newest schema, and print its version."""
    if not chosen.file.is_file():
        raise StoreReadError("migrate the database", str(chosen.file), "there is no such file")
    with closing(open_file(chosen.file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    print_lines([f"schema {version}"])


def _pair(changes: Sequence[HistoryRow], chosen: argparse.Namespace) -> tuple[HistoryRow, HistoryRow]:
    kept = {each.id: each for each in changes if each.value is not None or each.size is None}
    hint = f"`edgecore store history {chosen.key}` shows the changes that are known"
    if chosen.old is None:
        if len(kept) < 2:
            raise StoreReadError("compare two states", chosen.key, f"{len(kept)} is kept; {hint}")
        first, second = list(kept.values())[-2:]
        return first, second
    later = [number for number in kept if number > chosen.old]
    new = chosen.new if chosen.new is not None else min(later, default=-1)
    for number in (chosen.old, new):
        if number not in kept:
            about = f"change {number}" if number >= 0 else f"what came after {chosen.old}"
            raise StoreReadError("compare two states", chosen.key, f"the state of {about} is not kept; {hint}")
    return kept[chosen.old], kept[new]


def _lines(change: HistoryRow) -> list[str]:
    """Return a state as lines of YAML; of a secret the history has marks only."""
    if change.value is None:
        return []
    is_secret = Redactor(key=MARK_KEY).is_secret(change.key)
    return _as_yaml(change.value if is_secret else _redacted(change.key, change.value)).splitlines()


def _title(change: HistoryRow) -> str:
    return f"{change.key} change {change.id} {_time(change.at)} {change.cause}"


def _redacted(key: str, text: str) -> str:
    """Replace secrets by marks."""
    return Redactor(key=MARK_KEY).content(key, Operation.UPDATE, _as_json(text)).decode()


def _as_json(text: str) -> bytes:
    """Return a state as JSON; a state that is plain text becomes a JSON string."""
    try:
        decode_json(text)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.json.encode(text)
    return text.encode()


def _as_yaml(text: str) -> str:
    value = decode_json(_as_json(text))
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)


def _what(change: HistoryRow) -> str:
    if change.size is None:
        return "deleted"
    return f"version {change.resource_version}" if change.resource_version else f"{change.size} characters"


def _version(number: int) -> str:
    return str(number) if number else "-"


def _time(milliseconds: int) -> str:
    if not milliseconds:
        return "-"
    return f"{seconds_of(milliseconds)}.{milliseconds % 1000:03d}Z"


def _described(stored: StoredObject) -> dict[str, object]:
    return {
        "key": stored.key,
        "kind": stored.kind,
        "resourceVersion": stored.resource_version,
        "size": len(stored.value),
        "updated": _time(stored.updated),
    }


def _change_document(change: HistoryRow) -> dict[str, object]:
    return {
        "change": change.id,
        "time": _time(change.at),
        "key": change.key,
        "uid": change.uid,
        "resourceVersion": change.resource_version,
        "deleted": change.size is None,
        "size": change.size,
        "kept": change.value is not None,
        "cause": change.cause,
        "message": change.message,
    }


def _print_json(value: object) -> None:
    print_json(value, indent=2)
