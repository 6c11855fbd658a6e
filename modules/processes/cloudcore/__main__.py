"""`python -m modules.processes.cloudcore` and the console script `cloudcore`."""

import sys

from modules.processes.common.start_collector import collect_new_rarely

__all__ = ["main"]


def main() -> int:
    """Run the command in `sys.argv`; return the exit status."""
    collect_new_rarely()
    from modules.processes.cloudcore import cli  # noqa: PLC0415 - after that

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
