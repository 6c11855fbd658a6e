"""Reads the CNI configuration of the machine: one network, a list of plug-ins (CNI specification §1)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.decoding import convert, decode_json
from beehive.files.reading import read_file
from beehive.patterns import pattern
from modules.runtimes.oci.network.errors import NetworkConfigurationError

VERSIONS: Final[tuple[str, ...]] = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
"""Versions of the CNI specification that are spoken, the oldest first."""

MOST_BYTES: Final = 256 * 1024
"""Largest size of a configuration file."""

_ENDINGS: Final = (".conflist", ".conf", ".json")
_MOST_PLUGINS: Final = 32
_NAME: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

Plugin = dict[str, Any]
"""The configuration of one plug-in, with its `type`."""


class NetworkConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """A network: the plug-ins that attach a pod to it, in their order."""

    name: str
    plugins: list[Plugin]
    cni_version: str = "0.2.0"
    disable_check: bool = False

    def at_least(self, version: str) -> bool:
        """Return whether its plug-ins are spoken to in this version of CNI or a later one."""
        return VERSIONS.index(self.cni_version) >= VERSIONS.index(version)


class _File(msgspec.Struct, rename="camel"):
    """A file's content: a list of plug-ins, or a single one."""

    name: str = ""
    cni_version: str = "0.2.0"
    cni_versions: list[str] = []
    disable_check: bool = False
    plugins: list[Plugin] | None = None


def find_configuration(directory: Path) -> Path | None:
    """Return the first configuration file by name, or None. Raises OSError."""
    try:
        names = sorted(each.name for each in directory.iterdir() if each.name.endswith(_ENDINGS))
    except FileNotFoundError:
        return None
    return directory / names[0] if names else None


def read_configuration(path: Path) -> NetworkConfiguration:
    """Return the network that a file describes.

    Raises:
        NetworkConfigurationError: it cannot be read, or its content cannot be used.
    """
    attempt = f'use the CNI configuration "{path}"'
    try:
        return parse_configuration(read_file(path, MOST_BYTES))
    except (OSError, ValueError) as error:
        raise NetworkConfigurationError(attempt, str(error), "mend or remove the file") from error


def parse_configuration(text: bytes) -> NetworkConfiguration:
    """Return the network in the text of a file. Raises ValueError."""
    try:
        whole = decode_json(text, dict[str, Any])
        content = convert(whole, _File)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(f"it is no CNI configuration: {error}") from None
    plugins = [whole] if content.plugins is None else content.plugins
    spoken = [each for each in VERSIONS if each in content.cni_versions] or [content.cni_version]
    network = NetworkConfiguration(content.name, plugins, spoken[-1], content.disable_check)
    check_configuration(network)
    return network


def check_configuration(network: NetworkConfiguration) -> None:
    """Check the names that become names of programs and files. Raises ValueError."""
    if network.cni_version not in VERSIONS:
        raise ValueError(f'cniVersion "{network.cni_version}" is not known; these are: {", ".join(VERSIONS)}')
    if not _NAME.fullmatch(network.name):
        raise ValueError(f"{network.name[:100]!r} is no name of a network: letters, digits, '.', '_', '-'")
    if not 0 < len(network.plugins) <= _MOST_PLUGINS:
        raise ValueError(f"it has {len(network.plugins)} plug-ins; 1 to {_MOST_PLUGINS} are possible")
    for plugin in network.plugins:
        kind = plugin.get("type")
        if not isinstance(kind, str) or not _NAME.fullmatch(kind):
            raise ValueError(f"{str(kind)[:100]!r} is no type of a plug-in, the name of its program")
        if not isinstance(plugin.get("capabilities", {}), dict):
            raise ValueError(f'the capabilities of "{kind}" are no object')  # noqa: TRY004 - as for all wrong content


def find_plugin(kind: str, directories: Sequence[Path]) -> Path | None:
    """Return the program of a plug-in; None if no directory has an executable one."""
    paths = (directory / kind for directory in directories)
    return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)


def programs_of(network: NetworkConfiguration) -> list[str]:
    """Return the types of plug-ins whose programs a network needs, also of those for its addresses."""
    kinds = [str(plugin["type"]) for plugin in network.plugins]
    managers = [plugin["ipam"] for plugin in network.plugins if isinstance(plugin.get("ipam"), dict)]
    kinds += [str(ipam["type"]) for ipam in managers if ipam.get("type")]
    return list(dict.fromkeys(kinds))
