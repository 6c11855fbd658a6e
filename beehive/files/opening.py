"""Opens files with the permissions and flags that `open` lacks."""

import os
from collections.abc import Callable


def opener_with(permissions: int = 0o600, flags: int = os.O_NOFOLLOW) -> Callable[[str | bytes, int], int]:
    """Return an `opener` for `open`, which leaves no descriptor open when it fails, as `os.fdopen` would.

    Args:
        permissions: of a new file, before the umask.
        flags: of `os.open`, beside those of the mode; by default a link in the file's place is not followed.
    """
    return lambda path, of_mode: os.open(path, of_mode | flags, permissions)
