"""The refusals of devicetwin."""

from typing import Final

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
TOO_LARGE: Final = 413
FAILED: Final = 500

BAD_JSON: Final = "Unmarshal update request body failed, please check the request"
NO_TWIN: Final = "Update twin error, key:twin does not exist"
NO_DEVICE: Final = "update rejected due to the device is not existed"
BAD_KEY: Final = (
    "The key of twin must only include upper or lowercase letters, number, english, and special letter - _ . , : / @ # "
    "and the length of key should be less than 128 bytes"
)
BAD_VALUE: Final = (
    "The value of twin must only include upper or lowercase letters, number, english, and special letter - _ . , : / @ "
    "# and the length of value should be less than 512 bytes"
)
"""The texts are KubeEdge's: applications compare them."""


class TwinRefused(Exception):  # noqa: N818 - an answer to its sender, not a failure here
    """A refused request, with the code and the reason of the answer.

    Args:
        code: an HTTP status.
        reason: the mistake, and the allowed values.
        event_id: of the request, if it could be read.
    """

    def __init__(self, code: int, reason: str, event_id: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.event_id = event_id
