"""How a command ended, for clients of Kubernetes: a metav1.Status on the stream of errors."""

from typing import Any, Final

import msgspec

SUCCESS: Final[dict[str, Any]] = {"metadata": {}, "status": "Success"}


def exit_status(code: int) -> dict[str, Any]:
    """Return the status of a command that has ended with this code."""
    if code == 0:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> dict[str, Any]:
    """Return the status of a command that did not run, or not to its end."""
    causes = {"causes": [{"message": message}]}
    return {
        "metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "details": causes,
        "code": 500,
    }  # fmt: skip


def encoded(status: dict[str, Any], version: int) -> bytes:
    """Return a status as a version of the protocol has it: before version 4 the message of a failure only."""
    if version >= 4:
        return msgspec.json.encode(status)
    return str(status.get("message", "")).encode()
