"""A process that writes down each call of some functions: `python -m tests.end_to_end.followed_edgecore run …`, and
`followed_cloudcore`.

The environment names two files. `FOLLOW` has one function a line, `PATH QUALNAME`, the path relative to the repository.
`FOLLOWED` gets a line for each call of one of them, `PATH QUALNAME THREAD`, in the order of the calls.
"""

import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

_REPOSITORY: Final = Path(__file__).parents[2]


class Follower:
    """A profile function (`sys.setprofile`) for all threads.

    Args:
        functions: path and qualified name of each function to follow.
        output: the file that gets the calls, one write for each.
    """

    def __init__(self, functions: list[tuple[str, str]], output: Path) -> None:
        self._names = {(str(_REPOSITORY / path), name): f"{path} {name}" for path, name in functions}
        self._output = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def start(self) -> None:
        """Follow this thread, and each that starts from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        known = self._names.get((code.co_filename, code.co_qualname))
        if known is not None:
            os.write(self._output, f"{known} {threading.current_thread().name}\n".encode())


def follow() -> None:
    """Follow the functions of the environment."""
    lines = Path(os.environ["FOLLOW"]).read_text().splitlines()
    Follower([(path, name) for path, name in (line.split() for line in lines)], Path(os.environ["FOLLOWED"])).start()


if __name__ == "__main__":
    from modules.processes.edgecore.__main__ import main

    follow()
    sys.exit(main())
