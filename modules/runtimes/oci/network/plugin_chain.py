"""Runs the plug-ins of a network for one sandbox: ADD in their order, DEL in the reverse order (CNI §§2-3)."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from modules.runtimes.oci.network.attachment import Attachment
from modules.runtimes.oci.network.capabilities import has_nothing_to_do, runtime_config
from modules.runtimes.oci.network.configuration import Plugin, find_plugin
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.plugin import UNKNOWN_CONTAINER, PluginFailedError, PluginRunner
from modules.runtimes.oci.network.sysctls import INTERFACE

_log = logging.getLogger(__name__)

_RESULT_IN_ADD: Final = "0.3.0"
_RESULT_IN_DEL: Final = "0.4.0"
"""First versions of CNI whose plug-ins get the result of earlier plug-ins, at ADD and at DEL."""


class PluginChain:
    """The plug-ins of one network after another.

    Args:
        directories: of the plug-ins' programs.
        runner: runs one plug-in.
    """

    def __init__(self, directories: Sequence[Path], runner: PluginRunner) -> None:
        self._directories = directories
        self._runner = runner

    def add(self, attachment: Attachment, netns: str) -> dict[str, Any]:
        """Attach a sandbox; return the result of the last plug-in. Raises PodNetworkError."""
        network = attachment.network
        result: dict[str, Any] = {}
        for plugin in _needed(attachment):
            before = result if result and network.at_least(_RESULT_IN_ADD) else None
            said = self._run("ADD", attachment, netns, plugin, before)
            result = {"cniVersion": network.cni_version, **said} if said else result
        return result

    def repeat(self, attachment: Attachment, netns: str, kind: str) -> None:
        """Run ADD of one plug-in again, with the result of them all, to make what it had made; it must allow that.

        Raises PodNetworkError.
        """
        for plugin in _needed(attachment):
            if plugin["type"] == kind:
                self._run("ADD", attachment, netns, plugin, attachment.result)

    def delete(self, attachment: Attachment, netns: str) -> None:
        """Detach a sandbox. All plug-ins run, also after one has failed, so that an address is freed in any case.

        Raises:
            PodNetworkError: one has failed, the first one to do so.
        """
        before = attachment.result if attachment.network.at_least(_RESULT_IN_DEL) else None
        failures: list[PodNetworkError] = []
        for plugin in reversed(_needed(attachment)):
            try:
                self._run("DEL", attachment, netns, plugin, before)
            except PodNetworkError as error:
                if not (isinstance(error, PluginFailedError) and error.code == UNKNOWN_CONTAINER):
                    failures.append(error)
        for further in failures[1:]:
            _log.warning("%s", further)
        if failures:
            raise failures[0]

    def _run(
        self, command: str, attachment: Attachment, netns: str, plugin: Plugin, before: dict[str, Any] | None
    ) -> dict[str, Any]:
        program = find_plugin(plugin["type"], self._directories)
        if program is None:
            raise _missing(command, plugin["type"], self._directories)
        task = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": attachment.container_id,
            "CNI_NETNS": netns,
            "CNI_IFNAME": INTERFACE,
            "CNI_PATH": ":".join(map(str, self._directories)),
            "CNI_ARGS": attachment.arguments,
        }
        return self._runner.run(program, task, _input(attachment, plugin, before))


def _needed(attachment: Attachment) -> list[Plugin]:
    """Return the plug-ins that have something to do for the sandbox; the first one makes its interface."""
    first, *others = attachment.network.plugins
    return [first, *(each for each in others if not has_nothing_to_do(each, attachment.capabilities))]


def _input(attachment: Attachment, plugin: Plugin, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return a plug-in's input: its configuration, the network's name, and the pod's requests that it can fulfil."""
    network = attachment.network
    found = {name: value for name, value in plugin.items() if name != "capabilities"}
    found |= {"name": network.name, "cniVersion": network.cni_version}
    if values := runtime_config(plugin, attachment.capabilities):
        found["runtimeConfig"] = values
    if before is not None:
        found["prevResult"] = before
    return found


def _missing(command: str, kind: str, directories: Sequence[Path]) -> PodNetworkError:
    where = ", ".join(map(str, directories))
    hint = "apt-get install containernetworking-plugins"
    return PodNetworkError(f"{command} with the CNI plug-in {kind}", f"it is not in {where}", hint)
