"""An API server with a service account and a pod, and its tokens."""

import base64
import json
from typing import Any

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.tokens.issuer import KeysInMemory, TokenIssuer
from modules.cloud.apiserver.tokens.verification import review_token
from modules.cloud.authentication.settings import ServiceAccountSettings
from modules.cloud.authentication.users import Authenticated
from tests.modules.cloud.objects import node, pod, secret

ISSUER = "https://kubernetes.default.svc"


def payload_of(token: str) -> dict[str, Any]:
    """Return the claims of a token, unchecked."""
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


class Accounts:
    """The service account `app` in the namespace `default`, its pod `web` on the node `n1`, and a secret."""

    def __init__(self, settings: ServiceAccountSettings | None = None) -> None:
        self.clock = Simulation(0).clock
        self.settings = settings or ServiceAccountSettings()
        self.store = KeysInMemory()
        self.issuer = TokenIssuer(self.store, self.settings)
        self.cluster = Cluster(self.clock, tokens=self.issuer)
        self.create({"kind": "Node", "apiVersion": "v1", **node("n1")})
        self.account("app")
        self.create(pod("web", serviceAccountName="app"))
        self.create(secret("key", password="x"))  # noqa: S106 - of this test

    def create(self, obj: JsonObject) -> JsonObject:
        return self.cluster.create(obj)

    def account(self, name: str) -> JsonObject:
        metadata = {"name": name, "namespace": "default"}
        return self.create({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata})

    def uid(self, kind: str, name: str) -> str:
        found = self.cluster.storage.get(key_for(kind_named(kind), "default", name))
        return str(found["metadata"]["uid"])

    def delete(self, kind: str, name: str) -> None:
        self.cluster.delete(key_for(kind_named(kind), "default", name), 0)

    def request(self, name: str = "app", kind: str = "", of: str = "", uid: str = "", **spec: Any) -> JsonObject:
        """Return the answer to a TokenRequest, perhaps bound to an object."""
        if kind:
            spec["boundObjectRef"] = {"kind": kind, "apiVersion": "v1", "name": of, "uid": uid}
        return self.issuer.issue(self.cluster.storage, self.clock, "default", name, {"spec": spec})

    def token(self, name: str = "app", kind: str = "", of: str = "", **spec: Any) -> str:
        """Return a new token."""
        return str(self.request(name, kind, of, **spec)["status"]["token"])

    def user(self, token: str, *audiences: str) -> Authenticated | None:
        """Return the user of a token, as the API server finds it."""
        return review_token(token, self.store, self.settings, audiences, self.cluster.storage, self.clock.now())
