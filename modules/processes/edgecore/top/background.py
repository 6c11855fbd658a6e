"""Asks the terminal for the colour of its background, so that the view is light on a light one."""

import os
import re
import select
import sys
import termios
import time
import tty
from typing import Final

_QUESTION: Final = b"\x1b]11;?\x1b\\\x1b[c"
"""The background colour (OSC 11), and the terminal's kind, which every terminal answers: the end of the wait."""
_COLOUR: Final = re.compile(rb"\x1b\]11;rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_KIND: Final = re.compile(rb"\x1b\[\?[0-9;]*c")
_SECONDS: Final = 0.3
_MOST: Final = 4096


def is_light() -> bool:
    """Return whether the terminal of standard input has a light background; False if it does not say so."""
    try:
        return light_colour(_ask(sys.stdin.fileno()))
    except (OSError, termios.error):
        return False


def light_colour(answer: bytes) -> bool:
    """Return whether an answer has a light colour."""
    found = _COLOUR.search(answer)
    if found is None:
        return False
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)


def _ask(terminal: int) -> bytes:
    before = termios.tcgetattr(terminal)
    answer = b""
    try:
        tty.setcbreak(terminal)
        os.write(sys.stdout.fileno(), _QUESTION)
        deadline = time.monotonic() + _SECONDS
        while not _KIND.search(answer) and len(answer) < _MOST:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([terminal], [], [], left)[0]:
                break
            answer += os.read(terminal, 256)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    return answer
