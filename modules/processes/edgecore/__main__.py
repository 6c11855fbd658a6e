"""`python -m modules.processes.edgecore` and the console script `edgecore`."""

import signal
import sys
from typing import Final

from modules.processes.common.start_collector import collect_new_rarely
from modules.processes.edgecore.process_one import leave_process_one
from protos.postponed import import_without, postpone

__all__ = ["main"]

_LATER: Final = (
    "asyncio", "bz2", "calendar", "glob", "grpc.aio", "inspect", "lzma", "msgspec.inspect", "ssl", "tempfile",
    "textwrap", "tokenize",
)  # fmt: skip
"""Modules that other libraries import and rarely use, or that a node uses only later."""


def main() -> int:
    """Run the command in `sys.argv`; return the exit status."""
    if sys.argv[1:2] == ["run"]:
        leave_process_one()
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # it would end a node that does not record yet, see `Tracing`
    collect_new_rarely()
    leave_out()
    from modules.processes.edgecore import cli  # noqa: PLC0415 - after that

    return cli.main()


def leave_out() -> None:
    """Keep libraries from loading what a node has no use for; before their import."""
    for unused in _LATER:
        postpone(unused)
    import_without("msgspec", "typing_extensions")


if __name__ == "__main__":
    sys.exit(main())
