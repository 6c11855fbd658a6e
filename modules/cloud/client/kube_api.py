"""An API server, as the modules of cloudcore reach it."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.reflector.observations import Observation
from modules.cloud.client.reflector.selection import ListRequest, WatchRequest


class CallResponse(msgspec.Struct, frozen=True):
    """The response to a call."""

    status: int
    """As in HTTP."""
    result: ApiResult
    retry_after: float = 0.0
    """Seconds after which the server wants to be asked again; 0 if it names none."""


class ApiReading(Protocol):
    """A page of a list that was asked for, or a watch. Only the thread that began it uses it."""

    def receive(self) -> Sequence[Observation]:
        """Return the next changes that the server has sent, in order."""

    def cancel(self) -> None:
        """End it; may be called twice, and after its end."""


class KubeApi(Protocol):
    """Calls, lists and watches of one API server: over HTTP (`HttpKubeApi`), or of the one in the same process
    (`EmbeddedKubeApi`). The methods do not wait.
    """

    @property
    def collects(self) -> bool:
        """Whether calls wait for `send`."""

    def send(self) -> None:
        """Make the calls that wait."""

    def call(self, call: ApiCall, ended: Callable[[CallResponse | Exception], None]) -> None:
        """Make a call; one with a node, in the node's name.

        Args:
            call: the call.
            ended: called once, on any thread, with the response, or with the reason why it failed.
        """

    def read(self, request: ListRequest | WatchRequest, woken: Callable[[], None]) -> ApiReading:
        """Ask for a page of a list, or begin a watch.

        Args:
            request: the page or the watch.
            woken: called on any thread, once for each time that `receive` has something; it must not wait.
        """

    def close(self) -> None:
        """End everything that is under way."""
