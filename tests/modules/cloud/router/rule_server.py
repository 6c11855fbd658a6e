"""An API server with Rules, RuleEndpoints and jobs of nodes, as a transport of the router's client."""

import json
from typing import Any

from beehive.runtime import Runtime
from modules.apimachinery.kinds import ObjectKey, key_of
from modules.cloud.client.http.kube_api import HttpKubeApi
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.jobs import JOBS
from modules.cloud.rules import RULE, RULE_ENDPOINT

Json = dict[str, Any]


class Exchange:
    """A request; nothing of it can be cancelled or paused."""

    def cancel(self) -> None:
        """Do nothing."""

    def pause(self) -> None:
        """Do nothing."""

    def resume(self) -> None:
        """Do nothing."""


class RuleServer:
    """Answers lists and watches.

    Args:
        objects: of these kinds.
    """

    def __init__(self, *objects: Json) -> None:
        self._objects: dict[ObjectKey, Json] = {}
        self._version = 0
        self._watches: list[tuple[str, ResponseListener]] = []
        self.watched = 0
        """Number of watches so far."""
        for each in objects:
            self.store(each)

    def connect(self, _: Runtime) -> HttpKubeApi:
        """Return a client."""
        return HttpKubeApi(self)

    def start(self, request: ApiRequest, listener: ResponseListener) -> Exchange:
        """Answer a request."""
        plural = request.path.partition("?")[0].rpartition("/")[2]
        listener.on_head(ResponseHead(200, ()))
        if request.stream:
            self._watches.append((plural, listener))
            self.watched += 1
        else:
            items = [each for each in self._objects.values() if _plural(each) == plural]
            found = {"metadata": {"resourceVersion": str(self._version)}, "items": items}
            listener.on_data(json.dumps(found).encode())
            listener.on_end()
        return Exchange()

    def close(self) -> None:
        """End all watches."""
        self._watches.clear()

    def expire(self) -> int:
        """Tell all watches that their versions are too old; return the number of watches so far."""
        number = self.watched
        ended, self._watches = self._watches, []
        for _, listener in ended:
            listener.on_data(json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).encode() + b"\n")
            listener.on_end()
        return number

    def store(self, obj: Json) -> None:
        """Give an object the next version, and store it; the watches are not told yet."""
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key_of(obj)] = obj

    def change(self, change: str, obj: Json) -> None:
        """Make a change, and tell the watches."""
        self.store(obj)
        if change == "DELETED":
            del self._objects[key_of(obj)]
        event = {"type": change, "object": obj}
        for plural, listener in self._watches:
            if plural == _plural(obj):
                listener.on_data(json.dumps(event).encode() + b"\n")


def _plural(obj: Json) -> str:
    return next(kind.plural for kind in (RULE, RULE_ENDPOINT, *JOBS.values()) if kind.name == obj["kind"])
