"""Standard output whose reader has ended, as in `edgecore config default | head`."""

import os
import sys


def forget_output() -> None:
    """Discard further output, also at interpreter exit: a flush that fails there makes the exit status 120."""
    discarding = os.open(os.devnull, os.O_WRONLY)
    os.dup2(discarding, sys.stdout.fileno())
    os.close(discarding)
