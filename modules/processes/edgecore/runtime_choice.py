"""The container runtime of a node without a configuration file: chosen at its first start, and kept.

Where everything for it is there, containers are isolated (`embedded://oci`): for root, and for an ordinary user.
Elsewhere they are plain processes, which need nothing. A record in the node's directory keeps the choice, so that a
program that is installed later does not part a node from its pods; `edgecore reset --runtime` removes it with them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from beehive.files.durable import make_directories, replace_file
from modules.processes.edgecore.config import PROCESS_ENDPOINT, EdgeCoreConfig
from modules.processes.edgecore.config.names import OCI_ENDPOINT
from modules.processes.edgecore.runtime_kinds import RuntimeKind, has_records, of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RECORD: Final = "container-runtime"
"""File in the node's directory."""

_SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS: Final = {"crun": "crun", "conmon": "conmon", "iptables": "iptables"}
_WITHOUT_ROOT: Final = {"newuidmap": "uidmap", "slirp4netns": "slirp4netns"}
"""Packages of Debian and Ubuntu, by program."""
_PLUG_INS: Final = ("bridge", "host-local", "portmap")
_PLUG_INS_PACKAGE: Final = "containernetworking-plugins"
_NEEDED: Final = {12: "NET_ADMIN", 21: "SYS_ADMIN"}
"""Capabilities of root, by number."""
_LONGEST: Final = 100


class Shortfall(NamedTuple):
    """Lack of a machine for isolated containers."""

    reason: str
    remedy: str
    """The command that brings it."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.remedy})" if self.remedy else self.reason


def kept_runtime(root: Path) -> str:
    """Return the endpoint that a node has; empty before its first start."""
    try:
        with (root / RECORD).open("rb") as file:
            endpoint = file.read(_LONGEST).decode(errors="replace").strip()
    except OSError:
        return ""
    return endpoint if endpoint in (OCI_ENDPOINT, PROCESS_ENDPOINT) else ""


def configured_below(root: Path, endpoint: str = "") -> EdgeCoreConfig:
    """Return the configuration of a node without a file.

    Args:
        root: its directory.
        endpoint: its container runtime; by default the kept one, and plain processes before its first start.
    """
    config = EdgeCoreConfig.below(root)
    is_oci = (endpoint or kept_runtime(root)) == OCI_ENDPOINT
    return of_kind(config, RuntimeKind.OCI) if is_oci else config


def choose_runtime(root: Path) -> tuple[str, Shortfall | None]:
    """Return the endpoint of a node before its first start, and what isolated containers lack, if they are not chosen.

    Pods that an earlier version of edgecore has started as processes keep their runtime. To be called before there is a
    second thread.
    """
    if has_records(EdgeCoreConfig.below(root).container_runtime_root):
        return PROCESS_ENDPOINT, None
    missing = missing_for_isolation() or missing_by_trial(root)
    return (PROCESS_ENDPOINT, missing) if missing else (OCI_ENDPOINT, None)


def keep_runtime(root: Path, endpoint: str) -> None:
    """Keep the choice. Raises OSError."""
    make_directories(root, 0o755)
    replace_file(root / RECORD, f"{endpoint}\n".encode(), 0o644)


def forget_runtime(root: Path) -> None:
    """Let the next start choose again. Raises OSError."""
    (root / RECORD).unlink(missing_ok=True)


def missing_for_isolation(searched: str = _SEARCHED, plug_ins: Sequence[Path] | None = None) -> Shortfall | None:
    """Return what this machine, or this user, lacks for isolated containers, as far as that is seen without a trial.

    Args:
        searched: directories of programs, separated by colons.
        plug_ins: directories of CNI plug-ins; by default the runtime's.
    """
    is_root = os.geteuid() == 0
    programs = _PROGRAMS if is_root else {**_PROGRAMS, **_WITHOUT_ROOT}
    missing = [name for name in programs if shutil.which(name, path=searched) is None]
    packages = [programs[name] for name in missing]
    if not all(_has_plug_in(each, plug_ins) for each in _PLUG_INS):
        missing.append("CNI plug-ins")
        packages.append(_PLUG_INS_PACKAGE)
    if missing:
        return Shortfall(f"not installed: {', '.join(missing)}", f"apt-get install {' '.join(packages)}")
    return next(_root_lacks() if is_root else _user_lacks(), None)


def _has_plug_in(name: str, directories: Sequence[Path] | None) -> bool:
    from modules.runtimes.oci.programs import PLUG_INS  # noqa: PLC0415 - at the first start only

    return any((each / name).exists() for each in directories or PLUG_INS)


def _root_lacks() -> Iterator[Shortfall]:
    """Yield what root of a container usually has not."""
    from edged.cgroups.opening import machine_hierarchies  # noqa: PLC0415 - with other runtimes it is not needed yet

    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("CapEff:"))
    rights = int(line.partition(":")[2], 16)
    if absent := [name for number, name in _NEEDED.items() if not rights >> number & 1]:
        yield Shortfall(f"root of this container has no capability {' and '.join(absent)}", "")
    if not any(os.access(each.mount, os.W_OK) for each in machine_hierarchies()):
        yield Shortfall("no control groups can be made here", "")


def _user_lacks() -> Iterator[Shortfall]:
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415 - other nodes do without
    from modules.runtimes.oci.rootless.entering import check  # noqa: PLC0415
    from modules.runtimes.oci.rootless.node_network import NodeNetwork  # noqa: PLC0415

    for look in (check, NodeNetwork().check):
        try:
            look()
        except ContainerRuntimeError as error:
            yield Shortfall(error.reason, error.hint)


def missing_by_trial(directory: Path) -> Shortfall | None:
    """Return what an ordinary user's namespaces lack when they are made for a trial; nothing is left of it.

    Args:
        directory: the node's, which may be missing, or another one on its file system.
    """
    if os.geteuid() == 0:
        return None
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415 - other nodes do without
    from modules.runtimes.oci.rootless.probe import probe  # noqa: PLC0415

    try:
        probe(next(each for each in (directory, *directory.absolute().parents) if each.is_dir()))
    except ContainerRuntimeError as error:
        return Shortfall(error.reason, error.hint)
    except OSError as error:
        return Shortfall(str(error), "")
    return None
