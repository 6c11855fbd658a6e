"""Whether this machine runs programs of the 32-bit architecture that its processors may have too.

/proc does not say it everywhere, and kernels may be built or started without it. So a program of two or three
instructions is executed, which does nothing but end.
"""

import errno
import os
import struct
import subprocess
from functools import cache
from typing import Final, NamedTuple

_EXIT_CODE: Final = 77
_SECONDS: Final = 10.0
_MFD_EXEC: Final = 0x10
"""Linux 6.3: the file may be executed."""
_LOADED_AT: Final = 0x10000
_HEAD, _PART = 52, 32


class _Code(NamedTuple):
    """`exit(77)`: the machine's number in ELF, ELF's flags, and the instructions.

    They put the call's number (1) and the code into registers, and call the kernel: int 128, svc 0.
    """

    machine: int
    flags: int
    instructions: bytes


_CODES: Final = {
    "386": _Code(3, 0, bytes.fromhex("31c0 40 31db b34d cd80")),
    "arm": _Code(40, 0x0500_0000, bytes.fromhex("4d00a0e3 0170a0e3 000000ef")),
}


@cache
def runs(architecture: str) -> bool:
    """Return whether programs of an architecture run here: `386` or `arm`."""
    try:
        descriptor = _executable_memory()
        try:
            os.write(descriptor, program(architecture))
            path = f"/proc/self/fd/{descriptor}"
            done = subprocess.run(
                [path], pass_fds=[descriptor], stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False, env={}
            )
        finally:
            os.close(descriptor)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == _EXIT_CODE


def program(architecture: str) -> bytes:
    """Return an ELF file that ends with the exit code 77."""
    code = _CODES[architecture]
    start = _HEAD + _PART
    size = start + len(code.instructions)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    entry = _LOADED_AT + start
    head = struct.pack("<HHIIIIIHHHHHH", 2, code.machine, 1, entry, _HEAD, 0, code.flags, _HEAD, _PART, 1, 0, 0, 0)
    part = struct.pack("<IIIIIIII", 1, 0, _LOADED_AT, _LOADED_AT, size, size, 5, 0x1000)
    return ident + head + part + code.instructions


def _executable_memory() -> int:
    """Return a file in memory. Raises OSError."""
    try:
        return os.memfd_create("program", os.MFD_CLOEXEC | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel before 6.3
            raise
        return os.memfd_create("program")
