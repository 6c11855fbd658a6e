"""`python -m modules.processes.cloudcore` and the console script `cloudcore`."""

import sys

from modules.processes.cloudcore.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
