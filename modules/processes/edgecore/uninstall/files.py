"""The files that a node leaves on the disk, by name: other programs' files in a shared directory stay."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from beehive.files.damaged import DIRECTORY as DAMAGED
from beehive.files.removal import remove_tree
from edged.logs.files import links_to
from edged.pods.paths import PodPaths
from edgehub.certificates.files import unfinished
from metamanager.store import sqlite_path
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.location import KUBEEDGE_FILE, NodeLocation, changing
from modules.processes.edgecore.ownership import LOCK_FILE
from modules.processes.edgecore.runtime_choice import RECORD as RUNTIME_CHOICE
from modules.processes.edgecore.runtime_kinds import kinds_with_records, of_kind
from modules.processes.edgecore.socket_path import SOCKET
from modules.processes.edgecore.trace_socket import SOCKET as TRACE_SOCKET

_TREES: Final = (
    "image-archives",
    "plugins/kubernetes.io",
    "pods",
    "pod-resources",
    "traces",
    DAMAGED,
)
_FILES: Final = (
    SOCKET,
    "embedded.sock",
    "oci.sock",
    "docker.sock",
    TRACE_SOCKET,
    "device-plugins/kubelet.sock",
    "device-plugins/kubelet_internal_checkpoint",
    LOCK_FILE,
    "oci-namespaces",
    "chains",
    ".chains.new",
)
_OF_OCI: Final = ("oci", "oci-namespaces")
_LAYERS: Final = "oci/images/layers"
_IF_EMPTY: Final = ("device-plugins", "plugins", "plugins_registry")
_BESIDE_DATABASE: Final = ("", "-wal", "-shm", "-journal", "-reserve")
_FORMER: Final = ("before-join", "before-restore-*Z")


class Leftovers(NamedTuple):
    """The files and directories of a node."""

    remove: Sequence[Path]
    """Files, and directories with their content."""
    if_empty: Sequence[Path]
    """Directories that go once they are empty; the inner ones first."""

    def remove_all(self) -> list[Path]:
        """Remove everything, and return the paths that are left.

        Raises:
            OSError: the first thing that cannot be removed; everything else is removed nevertheless.
        """
        first: OSError | None = None
        for path in self.remove:
            try:
                remove_tree(path)
            except OSError as error:
                first = first or error
        for directory in self.if_empty:
            with suppress(OSError):
                directory.rmdir()
        if first is not None:
            raise first
        return _there(self.if_empty)


def leftovers(config: EdgeCoreConfig, location: NodeLocation) -> Leftovers:
    """Return the files that a node with this configuration has left."""
    edged = config.modules.edged.root_directory
    trees: list[Path]
    if not _there([edged / LOCK_FILE]):
        trees = [edged / name for name in _OF_OCI] if has_images_alone(config) else []
    else:
        trees = [*(edged / name for name in (*_TREES, *_FILES)), config.modules.device_twin.dmi_socket]
        trees += [config.internal_broker]
        trees += [of_kind(config, kind).container_runtime_root for kind in kinds_with_records(config)]
    manifests = config.modules.edged.tailored_kubelet_config.static_pod_path
    files = [
        *trees,
        *_logs(config, location),
        *_databases(config),
        *_certificates(config),
        *_replaced_manifests(manifests),
        *_configuration(location),
    ]
    directories = [edged / name for name in _IF_EMPTY]
    logs = config.modules.edged.tailored_kubelet_config.pod_logs_dir
    if _are_own(config, location):
        directories += [logs, PodPaths(edged, logs).log_links, logs.parent]
    directories += [edged]
    hub = config.modules.edge_hub
    directories += {path.parent: None for path in (hub.tls_ca_file, hub.tls_cert_file, hub.tls_private_key_file)}
    directories += [Path(manifests)] if manifests else []
    directories += [location.root.absolute()] if location.root is not None else []
    return Leftovers(_there(files), _there(directories))


def has_images_alone(config: EdgeCoreConfig) -> bool:
    """Return whether somebody has removed all of a node but layers of images, which belong to the sub-ids of a user."""
    edged = config.modules.edged.root_directory
    return (edged / _LAYERS).is_dir() and not (edged / LOCK_FILE).exists()


def pod_uids(config: EdgeCoreConfig) -> frozenset[str]:
    """Return the uids of the pods that the node has had, as long as it keeps their directories."""
    with suppress(OSError):
        return frozenset(os.listdir(config.modules.edged.root_directory / "pods"))  # noqa: PTH208 - names alone
    return frozenset()


def _logs(config: EdgeCoreConfig, location: NodeLocation) -> Iterator[Path]:
    """Yield the directories of the pods' logs, which end in the uid, and the links to these logs."""
    logs, uids = config.modules.edged.tailored_kubelet_config.pod_logs_dir, pod_uids(config)
    own = _are_own(config, location)
    with suppress(OSError):
        for path in sorted(logs.iterdir()):
            if own or path.name.rpartition("_")[2] in uids:
                yield from links_to(path, PodPaths(config.modules.edged.root_directory, logs).log_links)
                yield path


def _are_own(config: EdgeCoreConfig, location: NodeLocation) -> bool:
    """Return whether the pods' logs are in a directory of the node's, and not where all kubelets have them."""
    edged = config.modules.edged
    roots = [edged.root_directory, *([location.root.absolute()] if location.root is not None else [])]
    return any(edged.tailored_kubelet_config.pod_logs_dir.is_relative_to(each) for each in roots)


def _databases(config: EdgeCoreConfig) -> Iterator[Path]:
    path = sqlite_path(str(config.database_url))
    for database in (path, config.outbox_path):
        if database is not None:
            for end in _BESIDE_DATABASE:
                beside = database.with_name(database.name + end)
                yield beside
                yield from _former(beside)
            yield database.parent / DAMAGED


def _certificates(config: EdgeCoreConfig) -> Iterator[Path]:
    hub = config.modules.edge_hub
    for path in (hub.tls_ca_file, hub.tls_cert_file, hub.tls_private_key_file):
        yield from (path, *unfinished(path))
        yield from _former(path)


def _configuration(location: NodeLocation) -> Iterator[Path]:
    """Yield the configuration, if edgecore's rule names its place; a file that a user has named is the user's."""
    if location.root is not None:
        yield location.root / RUNTIME_CHOICE
    if location.file is not None and (location.root is not None or location.file == KUBEEDGE_FILE):
        yield location.file
        yield changing(location.file)
        yield from _former(location.file)


def _replaced_manifests(directory: str) -> Iterator[Path]:
    """Yield the static pods' manifests that a restore has kept."""
    if directory:
        yield from _matching(Path(directory), f".*.{_FORMER[1]}")


def _former(path: Path) -> Iterator[Path]:
    for pattern in _FORMER:
        yield from _matching(path.parent, f"{path.name}.{pattern}")


def _matching(directory: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a directory that match a pattern; none of a directory that is closed to this user."""
    with suppress(PermissionError):
        yield from directory.glob(pattern)


def _there(paths: Sequence[Path]) -> list[Path]:
    return [path for path in dict.fromkeys(paths) if os.path.lexists(path)]
