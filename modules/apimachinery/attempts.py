"""The errors of attempts: what the Kubernetes API's texts, and what edged does with its objects, have in common.

They are apart from `beehive.errors`, whose form they have, as commands read quantities and times without the bus.
"""

from typing import Final

_LONGEST: Final = 1024
"""Characters of an object's name in an error: messages appear in statuses, Events and logs, and a pod may choose any
name.
"""


class AttemptError(Exception):
    """Base of errors that are foreseen: each says what was attempted.

        AttemptError("read the quantity", "1,5Gi", hint="write 1.5Gi")

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


class UnreadableError(AttemptError):
    """A quantity, a time, an image's name or a document that cannot be read; the hint says which form is wanted."""
