"""Errors of kubectl's verbs; each is one line for the person who typed the command."""

from typing import Any

from beehive.errors import BeehiveError
from beehive.printable import printable
from modules.cli.statuses import REFUSED


class KubectlError(BeehiveError):
    """A verb cannot be carried out.

    Args:
        text: the error and advice, without a final full stop.
        status: exit status of the command.
    """

    def __init__(self, text: str, *, status: int = REFUSED) -> None:
        super().__init__(text)
        self.status = status

    @property
    def line(self) -> str:
        """The line that is printed."""
        return f"error: {self.text}"

    @property
    def text(self) -> str:
        """The error on one line, also where a server wrote several."""
        return " ".join(str(self).split())


class UsageError(KubectlError):
    """The arguments do not fit together; as for kubectl, its status means a refusal."""


class UnreachableError(KubectlError):
    """No server answers at the address, or the connection broke off."""


class TimedOutError(KubectlError):
    """The condition that a command waits for has not come true in time."""

    def __init__(self, text: str = "timed out waiting for the condition") -> None:
        super().__init__(text)


class StatusError(KubectlError):
    """A server's refusal (`metav1.Status`).

    Args:
        code: HTTP status.
        reason: one word, such as `NotFound`; may be empty.
        message: the server's sentence.
        details: kind, name and causes, as the server sent them.
    """

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    @property
    def line(self) -> str:
        """The line in kubectl's words."""
        if self.reason == "Invalid" and self.details.get("kind"):
            return self._invalid()
        return f"Error from server ({self.reason}): {self.text}" if self.reason else f"Error from server: {self.text}"

    @property
    def is_not_found(self) -> bool:
        """Whether the object, and not the path, does not exist."""
        return self.reason == "NotFound"

    def _invalid(self) -> str:
        found = self.details.get("causes")
        causes = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        why = "; ".join(f"{each.get('field') or '<nil>'}: {each.get('message')}" for each in causes)
        head = f'The {self.details["kind"]} "{self.details.get("name", "")}" is invalid'
        return printable(f"{head}: {'; '.join((why or self.text).splitlines())}")


def not_found(resource: str, name: str) -> StatusError:
    """Return the error for an object that is not there; `resource` has its group: `leases.coordination.k8s.io`."""
    return StatusError(404, "NotFound", f'{resource} "{name}" not found', {"kind": resource, "name": name})
