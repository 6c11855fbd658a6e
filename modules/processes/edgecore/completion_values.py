"""Values that a shell can complete from a running edgecore, and from the node's database."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modules.processes.common.completion_values import Values

if TYPE_CHECKING:
    import argparse

    from modules.processes.common.completion import Completer


def node_values() -> dict[str, Completer]:
    """Return the completers of `edgecore`."""
    values = Values(_socket_of_node, "/pods")
    return {
        **values.completers(), "object": values.pods, "kind": _stored_kinds, "key": _stored_keys,
        "device": _stored_devices, "property": _stored_properties, "assignments": _assignments,
    }  # fmt: skip


def _socket_of_node(chosen: argparse.Namespace) -> Path:
    from modules.processes.edgecore.location import load_node  # noqa: PLC0415 - only while completing a value

    return load_node(chosen).config.modules.edged.root_directory / "edged.sock"


def _stored_kinds(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    with suppress(Exception):
        from modules.processes.edgecore.store_commands.database import opened  # noqa: PLC0415

        with opened(parsed_args) as database:
            return database.kinds()
    return []


def _stored_devices(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return list(_properties_by_device(parsed_args))


def _stored_properties(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return _properties_by_device(parsed_args).get(parsed_args.device or "", [])


def _assignments(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return [f"{name}=" for name in _stored_properties(parsed_args)]


def _properties_by_device(parsed_args: argparse.Namespace) -> dict[str, list[str]]:
    with suppress(Exception):
        from modules.processes.edgecore.device_commands.commands import devices_of  # noqa: PLC0415

        return {one.id: sorted(one.twins) for one in devices_of(parsed_args)}
    return {}


def _stored_keys(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    with suppress(Exception):
        from modules.processes.edgecore.store_commands.database import opened  # noqa: PLC0415

        with opened(parsed_args) as database:
            return [each.key for each in database.objects()]
    return []
