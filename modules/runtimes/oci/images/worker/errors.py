"""The one error of a worker, which crosses to edgecore as a JSON line."""

from typing import Final

INVALID: Final = "invalid"
"""The image is wrong, and will be wrong when it is fetched again."""
NOT_FOUND: Final = "not-found"
"""No registry has the image."""
DENIED: Final = "denied"
"""The registry wants other credentials."""
UNAVAILABLE: Final = "unavailable"
"""The registry cannot be reached or does not answer as a registry; another attempt may succeed."""
LIMIT: Final = "limit"
"""The image is larger than allowed, or than the disk."""
MACHINE: Final = "machine"
"""The machine refuses something: no space, no permission, a broken disk."""


class ImageWorkError(Exception):
    """The work on an image cannot be done.

    Args:
        kind: one of the constants above.
        reason: the cause, without any secret.
        hint: advice for the reader.
    """

    def __init__(self, kind: str, reason: str, hint: str = "") -> None:
        self.kind = kind
        self.reason = reason
        self.hint = hint
        super().__init__(reason + (f" ({hint})" if hint else ""))


def invalid(reason: str, hint: str = "") -> ImageWorkError:
    """Return the error of an image that breaks a rule."""
    return ImageWorkError(INVALID, reason, hint)


def beyond_limit(reason: str) -> ImageWorkError:
    """Return the error of an image that is larger than a limit."""
    return ImageWorkError(LIMIT, reason)
