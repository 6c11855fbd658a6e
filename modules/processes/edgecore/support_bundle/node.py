"""The parts of a support bundle that are about the node: configuration, doctor, state, store, trace, upgrades."""

import os
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from beehive import RealClock
from beehive.decoding import decode_json
from beehive.errors import TraceError
from beehive.names import Operation
from beehive.trace.redact import Redactor
from beehive.trace.secret_forms import CUT
from metamanager.store import sqlite_path
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.support_bundle import machine
from modules.processes.common.support_bundle.bundle import LARGEST_TEXT, SupportPart, as_json
from modules.processes.common.support_bundle.cleaning import write_clean
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.loading import LoadResult
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.value_kinds import SecretText
from modules.processes.edgecore.config.writing import MINIMAL_KEYS, keys_chosen, render
from modules.processes.edgecore.doctor.checks import check_all
from modules.processes.edgecore.doctor.gathering import facts
from modules.processes.edgecore.location import changing
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.store_commands.database import StoredObject, StoreReadError, reading
from modules.processes.edgecore.trace_socket import SOCKET, ask
from modules.processes.edgecore.upgrade.updater.installation import Installation, installation_of

_STATE: Final = "/edgecore/state"
_MOST_OBJECTS: Final = 20_000
_UPGRADE: Final = {
    "journal.json": "how it has gone",
    "updater.log": "log of the updater",
    "run.log": "log of what the updater has started",
}
"""Files of an upgrade."""


def parts(loaded: LoadResult, options: str, redactor: Redactor) -> list[SupportPart]:
    """Return the parts of a node.

    Args:
        loaded: its configuration.
        options: lead any command to it.
        redactor: knows its secrets.
    """
    config = loaded.config
    return [
        SupportPart("node/edgecore.yaml", "configuration, without tokens and passwords", partial(_settings, config)),
        SupportPart("node/doctor.json", "what `edgecore doctor` finds", partial(_doctor, loaded, options)),
        SupportPart("node/state.json", "modules, link and messages of the edgecore that runs", partial(_state, config)),
        SupportPart("node/store.json", "keys, versions and sizes of the stored objects", partial(_list, config)),
        SupportPart(
            "node/pods.json", "the pods, without the values of their variables", partial(_pods, config, redactor)
        ),
    ]


def trace_part(config: EdgeCoreConfig, redactor: Redactor, scratch: Path) -> SupportPart:
    """Return the part with the newest trace of the flight recorder.

    Args:
        config: of the node.
        redactor: hides values.
        scratch: for the trace without them; the caller removes it.
    """
    about = "what the node did of late, without values of Secrets, ConfigMaps, variables, headers and annotations"
    return SupportPart("node/flight.trace", about, partial(_trace, config, redactor, scratch))


def upgrade_parts(file: Path | None) -> list[SupportPart]:
    """Return the parts about the last upgrade, and about the last change of a configuration, if there were any."""
    own = installation_of(Path(sys.prefix))
    changes = None if file is None else Installation(changing(file))
    return [
        SupportPart(f"{name}/{each}", about, partial(machine.tail, installation.state / each))
        for name, installation in (("upgrade", own), ("configuration", changes))
        if installation is not None
        for each, about in _UPGRADE.items()
        if (installation.state / each).exists()
    ]


def learn_secrets(config: EdgeCoreConfig, redactor: Redactor) -> None:
    """Let the redactor learn the secrets of the configuration and of the store, as far as they can be read."""
    for value in _secrets(config):
        redactor.known.learn(value.encode())
        with suppress(ValueError):
            redactor.known.learn((urlsplit(value).password or "").encode())
    with suppress(StoreReadError, OSError):
        for each in _objects(config):
            if redactor.is_secret(each.key):
                redactor.learn(each.value.encode(errors="replace"))


def _secrets(section: Section) -> list[str]:
    """Return the secret texts that a configuration has; the path of a database is none."""
    found = []
    for key in keys_of(type(section)):
        setting = getattr(section, key.attribute)
        if isinstance(setting, Section):
            found += _secrets(setting)
        elif isinstance(setting, SecretText) and setting and not setting.startswith("/"):
            found.append(str(setting))
    return found


def _without_secrets(section: Section) -> Any:
    """Return a configuration with marks in the place of its secrets."""
    changes: dict[str, Any] = {}
    for key in keys_of(type(section)):
        setting = getattr(section, key.attribute)
        if isinstance(setting, Section):
            changes[key.attribute] = _without_secrets(setting)
        elif isinstance(setting, SecretText) and setting and not setting.startswith("/"):
            changes[key.attribute] = SecretText(CUT)
    return msgspec.structs.replace(section, **changes)


def _settings(config: EdgeCoreConfig) -> str:
    shown = _without_secrets(config)
    return render(shown, (*MINIMAL_KEYS, *keys_chosen(shown)))


def _doctor(loaded: LoadResult, options: str) -> str:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with closing(RealClock()) as clock:
        return as_json(check_all(facts(loaded, options, clock)))


def _state(config: EdgeCoreConfig) -> str:
    return as_json(decode_json(NodeClient(socket_path(config)).get(_STATE)))


def _list(config: EdgeCoreConfig) -> str:
    found = [
        {"key": each.key, "version": each.resource_version, "size": len(each.value), "updated": each.updated}
        for each in _objects(config)[:_MOST_OBJECTS]
    ]
    return as_json(found)


def _pods(config: EdgeCoreConfig, redactor: Redactor) -> str:
    found, size = [], 0
    for each in _objects(config, "pod"):
        size += len(each.value)
        if size > LARGEST_TEXT:
            break
        try:
            found.append(decode_json(redactor.content(each.key, Operation.UPDATE, each.value.encode())))
        except (msgspec.DecodeError, UnicodeError):
            found.append({"key": each.key, "damaged": True})
    return as_json(found)


def _objects(config: EdgeCoreConfig, kind: str = "") -> list[StoredObject]:
    """Return the stored objects. Raises StoreReadError, also for a database that is no SQLite file."""
    path = sqlite_path(str(config.database_url))
    if path is None or not path.is_file():
        raise StoreReadError("open the database", str(path or ""), "there is no such file")
    with reading(path) as reader:
        return reader.objects(kind)


def _trace(config: EdgeCoreConfig, redactor: Redactor, scratch: Path) -> Path:
    """Return a trace without values. Raise TraceError if there is none."""
    made = scratch / "flight.trace"
    write_clean(_newest_trace(config), made, redactor)
    return made


def _newest_trace(config: EdgeCoreConfig) -> Path:
    """Return a trace that the running edgecore writes, or else the newest that is there.

    Raises:
        TraceError: there is none.
    """
    root = config.modules.edged.root_directory
    try:
        return Path(str(ask(root / SOCKET)["path"]))
    except (TraceError, KeyError):
        found = sorted(root.glob("traces/*.trace"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise TraceError("there is no trace", str(root / "traces"), "edgecore does not run") from None
        return found[-1]
