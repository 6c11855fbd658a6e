"""The programs of the machine that the OCI runtime needs, and the command that installs them."""

import shutil
from pathlib import Path
from typing import Final

import msgspec

from modules.runtimes.engine.errors import ContainerRuntimeError

INSTALL: Final = "apt-get install crun conmon containernetworking-plugins iptables"
"""Installs all of them on Debian and Ubuntu."""
PLUG_INS: Final = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
"""Directories of CNI plug-ins."""

_SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/libexec/podman:/usr/lib/podman"


class ProgramMissingError(ContainerRuntimeError):
    """A program that the runtime cannot do without is not installed."""


class Programs(msgspec.Struct, frozen=True):
    """Paths of the programs."""

    runtime: Path
    """crun, or runc."""
    conmon: Path
    """The parent of containers."""

    @property
    def is_crun(self) -> bool:
        """Whether the OCI runtime is crun."""
        return self.runtime.name == "crun"


def find_programs(searched: str = _SEARCHED) -> Programs:
    """Return the programs of this machine; crun is preferred to runc. Raises ProgramMissingError without either,
    or without conmon.

    Args:
        searched: directories, separated by colons. The process' own PATH does not count: it may be anybody's.
    """
    runtime = shutil.which("crun", path=searched) or shutil.which("runc", path=searched)
    conmon = shutil.which("conmon", path=searched)
    if runtime is None or conmon is None:
        missing = "crun (or runc)" if runtime is None else "conmon"
        raise ProgramMissingError("start the OCI runtime", f"{missing} not found", INSTALL)
    return Programs(Path(runtime), Path(conmon))
