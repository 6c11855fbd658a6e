"""The requirements of the OCI runtime inside edgecore on this machine."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from modules.processes.edgecore.doctor.facts import OciNeeds

SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/libexec/podman:/usr/lib/podman"

_FIRST_WITH_FIXES: Final = (1, 28)
"""crun before it follows a link of the image at /dev out of the container; edgecore refuses such images."""
_VERSION: Final = re.compile(r"crun version (\d{1,6})\.(\d{1,6})")
_SECONDS: Final = 2.0


def needs(searched: str = SEARCHED, proc: Path = Path("/proc")) -> OciNeeds:
    """Return the facts about its requirements on this machine.

    Args:
        searched: directories of programs, separated by colons.
        proc: the directory with the kernel's list of file systems.
    """
    crun = shutil.which("crun", path=searched)
    has_runtime = crun is not None or shutil.which("runc", path=searched) is not None
    present = {"crun (or runc)": has_runtime, "conmon": shutil.which("conmon", path=searched) is not None}
    return OciNeeds(
        missing=tuple(name for name, is_there in present.items() if not is_there),
        overlay=_has_overlay(proc),
        old=_old(crun) if crun else "",
    )


def _has_overlay(proc: Path) -> bool:
    """Return whether overlayfs is there, or a module of it."""
    try:
        if "overlay" in (proc / "filesystems").read_text().split():
            return True
        release = (proc / "sys/kernel/osrelease").read_text().strip()
    except OSError:
        return True  # not known
    return any(Path("/lib/modules", release, "kernel/fs/overlayfs").glob("overlay.ko*"))


def _old(crun: str) -> str:
    try:
        said = subprocess.run([crun, "--version"], capture_output=True, timeout=_SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = _VERSION.search(said.decode(errors="replace"))
    if version is None or (int(version[1]), int(version[2])) >= _FIRST_WITH_FIXES:
        return ""
    return f"crun {version[1]}.{version[2]} lacks fixes of 1.28 (CVE-2026-47766); edgecore refuses images that use it"
