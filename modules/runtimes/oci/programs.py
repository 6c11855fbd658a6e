"""The programs of the machine that the OCI runtime needs, and the command that installs them."""

import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

from modules.runtimes.engine.errors import ContainerRuntimeError

INSTALL: Final = "apt-get install crun conmon containernetworking-plugins iptables"
"""Installs all of them on Debian and Ubuntu."""
PLUG_INS: Final = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
"""Directories of CNI plug-ins."""

_SHIM: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("shim") / "__main__.py"))
_SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/libexec/podman:/usr/lib/podman"


class ProgramMissingError(ContainerRuntimeError):
    """A program that the runtime cannot do without is not installed."""


class Programs(NamedTuple):
    """Paths of the programs."""

    runtime: Path
    """crun, or runc."""
    conmon: Path | None
    """None where it is not installed: then `modules.runtimes.oci.shim` is the parent of containers."""

    @property
    def parent(self) -> tuple[str, ...]:
        """The command that begins the parent of a container."""
        return _SHIM if self.conmon is None else (str(self.conmon),)

    @property
    def is_crun(self) -> bool:
        """Whether the OCI runtime is crun."""
        return self.runtime.name == "crun"


def find_programs(searched: str = _SEARCHED) -> Programs:
    """Return the programs of this machine; crun is preferred to runc. Raises ProgramMissingError without either.

    Args:
        searched: directories, separated by colons. The process' own PATH does not count: it may be anybody's.
    """
    runtime = shutil.which("crun", path=searched) or shutil.which("runc", path=searched)
    conmon = shutil.which("conmon", path=searched)
    if runtime is None:
        raise ProgramMissingError("start the OCI runtime", "crun (or runc) not found", INSTALL)
    return Programs(Path(runtime), Path(conmon) if conmon else None)
