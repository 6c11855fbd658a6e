"""The names of Linux' capabilities."""

from collections.abc import Iterator
from typing import Final

_IN_ORDER: Final = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)
NAMES: Final = tuple(_IN_ORDER.split())
"""Names of capabilities, in the order of the kernel's numbers (include/uapi/linux/capability.h)."""


def names_in(mask: int) -> Iterator[str]:
    """Yield the names of a set as /proc/PID/status shows it."""
    return (name for number, name in enumerate(NAMES) if mask >> number & 1)
