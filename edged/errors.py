"""The root of edged's errors.

Each says what was attempted and on what, carries a hint for the person who reads it, and tells the queues
whether trying again can help without anybody changing anything. The shape is that of
`beehive.errors.BeehiveError`.
"""

import errno
import os

_LONGEST = 1024
"""Characters of an object's name in an error: a message shows in statuses, events and logs, and a pod may name things
as it likes.
"""


class EdgedError(Exception):
    """Base of all errors that edged raises on purpose.

    Args:
        attempt: what was attempted, as a phrase: "read the quantity".
        on: the object of it: a pod, a container, a path. Never a secret's value.
        hint: what the reader can do about it.
        retryable: whether the same attempt may succeed later.
    """

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, retryable: bool = False) -> None:
        self.attempt = attempt
        self.on = on = on if len(on) <= _LONGEST else f"{on[:_LONGEST]}… ({len(on)} characters)"
        self.hint = hint
        self.retryable = retryable
        text = f"{attempt}: {on}" if on else attempt
        super().__init__(f"{text} ({hint})" if hint else text)


def found_no_room(error: BaseException) -> bool:
    """Whether an error, or what led to it, is a disk without room. A runtime only says so in words."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__
    return os.strerror(errno.ENOSPC).lower() in str(error).lower()
