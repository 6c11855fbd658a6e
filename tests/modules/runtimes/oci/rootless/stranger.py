"""Another user of the machine, who tries what may be done to a node: a sub-id, without rights over anything.

Arguments: numbers of processes, and paths of files, directories and sockets of the node. What was possible is printed.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from modules.runtimes.oci.rootless.entering import make_namespaces

_NUMBER: Final = 4321
"""Of the user, among the sub-ids."""


def _process(pid: str) -> dict[str, Callable[[], object]]:
    directory = Path("/proc", pid)
    return {
        "signal": lambda: os.kill(int(pid), 0),
        "environment": (directory / "environ").read_bytes,
        "files": lambda: next((directory / "root/").iterdir()),
        "descriptors": lambda: next((directory / "fd").iterdir()),
        "namespaces": lambda: os.open(directory / "ns/user", os.O_RDONLY | os.O_CLOEXEC),
    }


def _path(path: str) -> dict[str, Callable[[], object]]:
    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)

    return {
        "read": Path(path).read_bytes,
        "list": lambda: next(Path(path).iterdir()),
        "connect": connect,
        "change": lambda: os.utime(path),
    }


def _main(targets: list[str]) -> None:
    make_namespaces()
    os.setgroups([])
    os.setresgid(_NUMBER, _NUMBER, _NUMBER)
    os.setresuid(_NUMBER, _NUMBER, _NUMBER)
    print("user", os.getuid())  # noqa: T201 - the answer
    for target in targets:
        for name, attempt in (_process if target.isdecimal() else _path)(target).items():
            try:
                attempt()
            except OSError:
                continue
            print(name, target)  # noqa: T201 - the answer


if __name__ == "__main__":
    _main(sys.argv[1:])
