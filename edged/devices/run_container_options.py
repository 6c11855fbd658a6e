"""The options of a container for all its devices together."""

import logging
from collections.abc import Iterable, Mapping
from typing import TypeVar

from edged.pods.config.device_options import DeviceMount, DeviceNode, DeviceRunContainerOptions

T = TypeVar("T")
_log = logging.getLogger(__name__)


def merged(options: Iterable[DeviceRunContainerOptions]) -> DeviceRunContainerOptions:
    """Merge the options of several resources; of two with the same name or path, the first wins."""
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, DeviceMount] = {}
    nodes: dict[str, DeviceNode] = {}
    cdi: dict[str, None] = {}
    for each in options:
        _add(envs, each.envs, "variable")
        _add(annotations, each.annotations, "annotation")
        _add(mounts, {mount.container_path: mount for mount in each.mounts}, "mount")
        _add(nodes, {node.container_path: node for node in each.nodes}, "device")
        cdi |= dict.fromkeys(each.cdi_devices)
    return DeviceRunContainerOptions(envs, tuple(mounts.values()), tuple(nodes.values()), annotations, tuple(cdi))


def _add(known: dict[str, T], more: Mapping[str, T], what: str) -> None:
    for name, value in more.items():
        if known.setdefault(name, value) != value:
            _log.warning("two resources want another %s %s; the first has it", what, name)
