"""`python -m modules.processes.edgecore` and the console script `edgecore`."""

import sys

from modules.processes.common.start_collector import collect_rarely
from protos.postponed import postpone

__all__ = ["main"]


def main() -> int:
    """Run the command in `sys.argv`; return the exit status."""
    collect_rarely()
    postpone("grpc.aio")
    from modules.processes.edgecore import cli  # noqa: PLC0415 - after that

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
