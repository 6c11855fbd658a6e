"""A sandbox's attachment to a network, stored in the sandbox's directory: the plug-ins need it to detach the sandbox.

It is written before the plug-ins run, and again with their result, so that a crash at any moment leaves enough to
detach the sandbox, also when the machine's configuration has changed since.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.durable import replace_soon
from beehive.files.reading import read_file
from modules.runtimes.oci.network.configuration import NetworkConfiguration, check_configuration

FILE: Final = "network.json"
_MOST_BYTES: Final = 4 * 1024 * 1024


class Attachment(msgspec.Struct, frozen=True):
    """The facts about a sandbox that the plug-ins of a network get."""

    network: NetworkConfiguration
    container_id: str
    arguments: str
    """`CNI_ARGS`."""
    capabilities: dict[str, Any]
    """Values of capabilities, before they are shared out among the plug-ins."""
    result: dict[str, Any] | None = None
    """Result of the last plug-in; None while the plug-ins run."""


def write_attachment(directory: Path, attachment: Attachment) -> None:
    """Write the attachment into the directory of its sandbox. Raises OSError."""
    replace_soon(directory / FILE, msgspec.json.encode(attachment))


def has_attachment(directory: Path) -> bool:
    """Return whether a sandbox has an attachment, which may be damaged."""
    return (directory / FILE).exists()


def read_attachment(directory: Path) -> Attachment | None:
    """Return the attachment of a sandbox, or None.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    try:
        text = read_file(directory / FILE, _MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        attachment = decode_json(text, Attachment)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(str(error)) from None
    check_configuration(attachment.network)
    return attachment


def remove_attachment(directory: Path) -> None:
    """Remove the attachment of a sandbox. Raises OSError."""
    (directory / FILE).unlink(missing_ok=True)


def verbose_network_status(directory: Path, namespaces: Mapping[str, Path | None]) -> dict[str, Any]:
    """Return the network and the namespaces of a sandbox for its verbose status.

    Args:
        directory: of the sandbox.
        namespaces: files of its own namespaces by their types in the OCI runtime specification, None for the machine's.
    """
    try:
        attachment = read_attachment(directory)
    except (OSError, ValueError):  # damaged: the sandbox is detached without it
        attachment = None
    found = [{"type": kind, "path": str(path)} for kind, path in namespaces.items() if path is not None]
    result = {"cniResult": attachment.result} if attachment is not None else {}
    return {**result, "runtimeSpec": {"linux": {"namespaces": found}}}
