"""The border between the controllers and the API server."""

from typing import Protocol

from modules.cloud.apiserver.kinds import JsonObject, Kind, ObjectKey


class ApiClient(Protocol):
    """What edgecontroller calls of an API server, in the manner of client-go. `Cluster` is the embedded one.

    Watching has no method here: `Transactions` calls its `changed` with each `ObjectEvent`. Returned objects must not
    be changed. All methods that write raise an ApiError for a refused request; then nothing has changed.
    """

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""

    def create(self, obj: JsonObject) -> JsonObject:
        """Store a new object and return it with uid, creation time and resourceVersion."""

    def replace(self, obj: JsonObject) -> JsonObject:
        """Replace an object; its uid and resourceVersion, when given, must be the stored ones."""

    def patch_status(self, key: ObjectKey, patch: JsonObject) -> JsonObject:
        """Merge a strategic merge patch into an object's status and metadata."""

    def replace_status(self, key: ObjectKey, status: JsonObject) -> JsonObject:
        """Replace an object's status."""

    def delete(self, key: ObjectKey, grace: int | None = None, uid: str = "") -> JsonObject:
        """Delete an object. `grace` is in seconds (None: the pod's own); a `uid` is a precondition."""

    def record_event(self, event: JsonObject) -> None:
        """Create or replace a Kubernetes Event."""

    def create_token(self, namespace: str, account: str, request: JsonObject) -> JsonObject:
        """Return a TokenRequest of a service account with its status filled in."""
