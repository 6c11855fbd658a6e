"""People who make Rules at a cloudcore, and callers of its nodes."""

import http.client
import json
import ssl
from contextlib import closing
from typing import Any

from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import namespace
from tests.modules.cloud.router.rules import endpoint
from tests.support.control_client import Apply, ControlClient
from tests.support.patience import PATIENCE

GROUP = "/apis/rules.kubeedge.io/v1"
Json = dict[str, Any]


class RuleAuthors:
    """Write Rules and RuleEndpoints, and read statuses.

    Args:
        client: of the control socket.
        namespace: of all of them.
    """

    def __init__(self, client: ControlClient, namespace: str = "cap") -> None:
        self._client = client
        self._namespace = namespace

    def wait(self) -> None:
        """Wait until cloudcore knows the kinds."""
        kinds = ("rules", "ruleendpoints")
        wait_until(lambda: all(self._client.request("GET", self._path(each))[0] == 200 for each in kinds), "the kinds")
        self._client.run(Apply([namespace(self._namespace)]))

    def apply(self, *objects: Json) -> None:
        """Create or change objects; return when the router knows of the Rules among them."""
        for obj in objects:
            plural = f"{obj['kind'].lower()}s"
            metadata = {"name": obj["metadata"]["name"], "namespace": self._namespace}
            path = f"{self._path(plural)}/{metadata['name']}?fieldManager=test&force=true"
            body = json.dumps({**obj, "metadata": metadata}).encode()
            status, text = self._client.request("PATCH", path, body, "application/apply-patch+yaml")
            assert status in (200, 201), text
        rules = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Rule"]
        known = lambda: all(self.status(name).get("conditions") for name in rules)  # noqa: E731 - a thunk to wait for
        wait_until(known, "the router knows the rules")

    def apply_endpoints(self, port: int = 18832) -> None:
        """Create a RuleEndpoint of each type."""
        http = endpoint("sb", "servicebus", service_port=str(port))
        self.apply(endpoint("rest", "rest"), endpoint("eb", "eventbus"), http)

    def delete(self, name: str) -> None:
        """Delete a Rule."""
        assert self._client.request("DELETE", f"{self._path('rules')}/{name}")[0] == 200

    def status(self, name: str) -> Json:
        """Return the status of a Rule."""
        status, text = self._client.request("GET", f"{self._path('rules')}/{name}")
        return dict(json.loads(text).get("status") or {}) if status == 200 else {}

    def _path(self, plural: str) -> str:
        return f"{GROUP}/namespaces/{self._namespace}/{plural}"


class Called:
    """What a caller gets."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()


def call(
    port: int,
    target: str,
    method: str = "GET",
    body: bytes | None = None,
    context: ssl.SSLContext | None = None,
    headers: dict[str, str] | None = None,
) -> Called:
    """Call a node through a cloudcore's router."""
    with closing(
        http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    ) as connection:
        connection.request(method, target, body, headers or {})
        return Called(connection.getresponse())
