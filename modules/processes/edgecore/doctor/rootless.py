"""The requirements of the OCI runtime for an ordinary user on this machine."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from modules.processes.edgecore.doctor.facts import Isolation, RootlessNeeds, Shortage
from modules.processes.edgecore.doctor.oci import SEARCHED
from modules.processes.edgecore.runtime_choice import missing_for_isolation

_SYSTEMD: Final = Path("/run/systemd/system")
_LINGERING: Final = Path("/var/lib/systemd/linger")
_SECONDS: Final = 5.0


def needs(systemd: Path = _SYSTEMD, lingering: Path = _LINGERING, searched: str = SEARCHED) -> RootlessNeeds:
    """Return the facts about its requirements.

    Args:
        systemd: a directory that exists where systemd runs.
        lingering: systemd's directory of the users whose processes outlive their log-out.
        searched: directories of programs, separated by colons.
    """
    from modules.runtimes.oci.rootless.delegation import undelegated  # noqa: PLC0415 - other nodes do without
    from modules.runtimes.oci.rootless.entering import REFUSED, check  # noqa: PLC0415
    from modules.runtimes.oci.rootless.node_network import NodeNetwork  # noqa: PLC0415

    found = [_shortage("sub-ids", check), _shortage("slirp4netns", NodeNetwork(searched=searched).check)]
    if not _has_namespaces(searched):
        found.append(Shortage("user namespaces", "this machine refuses them to an ordinary user", REFUSED))
    name = _own_name()
    ends = systemd.is_dir() and not (lingering / name).exists()
    gap = undelegated()
    unlimited = None if gap is None else Shortage(", ".join(gap.limits), gap.reason, gap.remedy)
    shortages = tuple(each for each in found if each is not None)
    return RootlessNeeds(shortages=shortages, user=name, ends_at_log_out=ends, unlimited=unlimited)


def isolation() -> Isolation:
    """Return what a node without a configuration file lacks to isolate containers."""
    missing = missing_for_isolation()
    return Isolation() if missing is None else Isolation(*missing)


def _shortage(name: str, look: Callable[[], object]) -> Shortage | None:
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415 - other nodes do without

    try:
        look()
    except ContainerRuntimeError as error:
        return Shortage(name, error.reason, error.hint)
    return None


def _has_namespaces(searched: str) -> bool:
    """Return whether this user may make a user namespace with rights in it; True where that cannot be tried."""
    unshare = shutil.which("unshare", path=searched)
    if unshare is None:
        return True
    try:
        command = [unshare, "--user", "--map-root-user", "--mount", "true"]
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return True


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
