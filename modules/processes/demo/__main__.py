"""`python -m modules.processes.demo`, which `make run` calls."""

import signal
import sys


def main() -> int:
    """Run the demo; return its exit status. Until it has something to clean up, Ctrl-C ends the process at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from modules.processes.demo import command  # noqa: PLC0415 - after that

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
