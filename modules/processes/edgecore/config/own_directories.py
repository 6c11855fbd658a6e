"""Directories in the node's own, in place of root's that this user may not write and that the file has as KubeEdge's
defaults.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from modules.processes.edgecore.config.devices import DeviceTwins
from modules.processes.edgecore.config.errors import Remark
from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.config.loading import LoadResult
from modules.processes.edgecore.config.model import EdgeCoreConfig


def with_own_directories(loaded: LoadResult, may_write: Callable[[Path], bool] | None = None) -> LoadResult:
    """Return a node's configuration with directories that its user may write, and a warning for each that is another.
    A user who may not even write the root directory only looks at a node of somebody else.

    Args:
        loaded: the file.
        may_write: returns whether a directory may be written, or made.
    """
    config, told = loaded.config, list[Remark]()
    may_write = may_write or _may_write
    for path, before, after, changed in _choices(config):
        if not may_write(before) and may_write(config.modules.edged.root_directory):
            told.append(_remark(path, before, after))
            config = changed(config)
    return replace(loaded, config=config, warnings=(*loaded.warnings, *told)) if told else loaded


Change = Callable[[EdgeCoreConfig], EdgeCoreConfig]


def _choices(config: EdgeCoreConfig) -> Iterator[tuple[str, Path, Path, Change]]:
    """Yield each key that has its default, with both directories, and the function that makes the change."""
    edged, twin = config.modules.edged, config.modules.device_twin
    logs, own_logs = edged.tailored_kubelet_config.pod_logs_dir, edged.root_directory / "logs" / "pods"
    if edged.enable and logs == TailoredKubeletConfig().pod_logs_dir:
        yield (
            "modules.edged.tailoredKubeletConfig.podLogsDir",
            logs,
            own_logs,
            lambda config: _with_logs(config, own_logs),
        )
    if twin.enable and twin.enable_mappers and twin.dmi_socket == DeviceTwins().dmi_socket:
        directory = edged.root_directory
        yield (
            "modules.deviceTwin.dmiSockPath", twin.dmi_socket.parent, directory,
            lambda config: _with_socket(config, directory),
        )  # fmt: skip


def _with_logs(config: EdgeCoreConfig, logs: Path) -> EdgeCoreConfig:
    edged = config.modules.edged
    kubelet = replace(edged.tailored_kubelet_config, pod_logs_dir=logs)
    edged = replace(edged, tailored_kubelet_config=kubelet)
    return replace(config, modules=replace(config.modules, edged=edged))


def _with_socket(config: EdgeCoreConfig, directory: Path) -> EdgeCoreConfig:
    twin = replace(config.modules.device_twin, dmi_sock_path=directory)
    return replace(config, modules=replace(config.modules, device_twin=twin))


def _may_write(directory: Path) -> bool:
    """Return whether this user may write a directory, or make it where it is missing."""
    there = next(each for each in (directory, *directory.parents) if os.path.lexists(each))
    return os.access(there, os.W_OK | os.X_OK)


def _remark(path: str, before: Path, after: Path) -> Remark:
    return Remark(path=path, text=f"{before} is not this user's, so it is {after}", hint="the key names another")
