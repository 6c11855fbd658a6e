"""`python -m modules.cloudcore` and the console script `cloudcore`."""

import sys

from modules.cloudcore.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
