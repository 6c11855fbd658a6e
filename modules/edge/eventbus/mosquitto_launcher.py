"""Becomes mosquitto: a program of its own, `python -I -S mosquitto_launcher.py PARENT UID GID NAME PROGRAM …`.

It gives up root's rights, asks the kernel for a SIGTERM when edgecore ends, however it ends, and executes the program
in its place. mosquitto itself could not: the kernel forgets the request when a process changes its user.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    """Execute the program; end with status 1 if edgecore has ended."""
    parent, uid, gid = map(int, sys.argv[1:4])
    name, program, *arguments = sys.argv[4:]
    if os.geteuid() == 0 and uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_PDEATHSIG, int(signal.SIGTERM))):
        if libc.prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        sys.exit(1)
    os.umask(0o077)
    os.execv(program, [name, *arguments])  # noqa: S606


if __name__ == "__main__":
    main()
