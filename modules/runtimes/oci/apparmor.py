"""The AppArmor profile of containers that name none: RuntimeDefault, or nothing at all.

It keeps a container with root's rights from the machine where namespaces and masks do not: from what of /proc and /sys
belongs to the whole machine, from mounts, and from processes of other profiles. Docker and containerd have the same
aims. It is loaded at the start, and stays in the kernel for containers that outlive edgecore.
"""

import logging
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from modules.runtimes.oci.spec.apparmor import DEFAULT_PROFILES, loaded_profiles

_log = logging.getLogger(__name__)

NAME: Final = DEFAULT_PROFILES[0]
_PARSER: Final = "apparmor_parser"
_SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS: Final = 30.0
_SHOWN: Final = 300
_OFF: Final = "AppArmor is off in this kernel: containers are unconfined"

PROFILE: Final = f"""\
profile {NAME} flags=(attach_disconnected, mediate_deleted) {{
  capability,
  file,
  network,
  umount,

  # from edgecore, conmon and crun, and among the processes of containers
  signal (receive) peer=unconfined,
  signal (receive) peer=crun,
  signal (receive) peer=runc,
  signal (send, receive) peer={NAME},
  ptrace (trace, read, tracedby, readby) peer={NAME},

  deny mount,

  # of /proc a container may write what is a process's own, and the parameters of its shared memory
  deny /proc/* w,
  deny /proc/[^1-9s]*/** w,
  deny /proc/s[^ey]*/** w,
  deny /proc/sys/[^k]** w,
  deny /proc/sys/kernel/[^s]** w,
  deny /proc/sys/kernel/s[^h]** w,
  deny /proc/{{kcore,kmem,mem,sysrq-trigger}} rwklx,

  # of /sys nothing but control groups
  deny /sys/[^f]*/** wklx,
  deny /sys/f[^s]*/** wklx,
  deny /sys/fs/[^c]*/** wklx,
  deny /sys/fs/c[^g]*/** wklx,
  deny /sys/{{firmware,devices/virtual/powercap,kernel/security}}/** rwklx,
}}
"""


class DefaultProfile(NamedTuple):
    """The AppArmor profile of a container that names none, for the status of the runtime."""

    name: str
    """"": no profile."""
    reason: str = ""
    """Why there is no profile, or another."""


def load_default_profile(profiles: Path | None, searched: str = _SEARCHED) -> DefaultProfile:
    """Load the profile into the kernel, in place of an older one of the same name; without it containers still run.

    Args:
        profiles: the kernel's list of loaded profiles; None where AppArmor is off.
        searched: directories of apparmor_parser, separated by colons.
    """
    if profiles is None:
        return DefaultProfile("", _OFF)
    parser = shutil.which(_PARSER, path=searched)
    reason = _load(parser) if parser else f"there is no {_PARSER}: apt-get install apparmor"
    try:
        loaded = loaded_profiles(profiles)
    except OSError as error:
        return DefaultProfile("", f"the loaded profiles cannot be read: {error.strerror}")
    name = next((each for each in DEFAULT_PROFILES if each in loaded), "")
    if reason:
        _log.warning("AppArmor: %s is not loaded: %s; containers have %s", NAME, reason, name or "no profile")
    return DefaultProfile(name, reason)


def _load(parser: str) -> str:
    """Load the profile; return why that failed."""
    try:
        done = subprocess.run(
            [parser, "--replace", "--skip-cache"], input=PROFILE.encode(), capture_output=True, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_SHOWN]
    return done.stderr.decode(errors="replace").strip()[:_SHOWN] if done.returncode else ""
