"""The root of edged's errors."""

import errno
import os

_LONGEST = 1024
"""Maximum of characters of an object's name in an error: messages appear in statuses, events and logs, and a pod may
choose any name.
"""


class EdgedError(Exception):
    """Base of all errors that edged raises on purpose, in the form of `beehive.errors.BeehiveError`.

        EdgedError("read the quantity", "1,5Gi", hint="write 1.5Gi")

    Args:
        attempt: the attempted action, as a phrase: "read the quantity".
        on: its object: a pod, a container, a path. Never a secret's value.
        hint: advice for the reader.
        retryable: whether the same attempt may succeed later without any change.
    """

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, retryable: bool = False) -> None:
        self.attempt = attempt
        self.on = on = on if len(on) <= _LONGEST else f"{on[:_LONGEST]}… ({len(on)} characters)"
        self.hint = hint
        self.retryable = retryable
        text = f"{attempt}: {on}" if on else attempt
        super().__init__(f"{text} ({hint})" if hint else text)


def found_no_room(error: BaseException) -> bool:
    """Return whether a full disk has caused an error. A container runtime states that in its message only."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__
    return os.strerror(errno.ENOSPC).lower() in str(error).lower()
