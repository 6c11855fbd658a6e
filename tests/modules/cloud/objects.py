"""Objects that the tests of edgecontroller begin with."""

from base64 import b64encode
from typing import Any

from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.strategic_merge import merge_strategic
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.database import Database

CERTIFICATE = b64encode(b"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n").decode()
"""What a signer answers to a certificate request; its content does not matter."""
SIGNING_REQUEST = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"
"""What a certificate request asks for, as an API server wants it: base64 of PEM."""
POD_MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: n1
  containers: [{name: main, image: "busybox:1.35"}]
"""


def pod(name: str = "web", /, **spec: Any) -> dict[str, Any]:
    """A pod as a person writes it."""
    containers = [{"name": "main", "image": "busybox:1.35", "command": ["sleep", "1d"]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "n1", "containers": containers, **spec},
    }


def namespace(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def configmap(name: str = "settings", **data: str) -> dict[str, Any]:
    """A configmap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str = "key", **data: str) -> dict[str, Any]:
    """A secret, in clear."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def service(name: str = "web", **labels: str) -> dict[str, Any]:
    """A Service."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels}, "spec": spec}


def node(name: str = "n1", **labels: str) -> dict[str, Any]:
    """A node as it registers itself: without kind, as Go clients send it."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}


def in_memory() -> Database:
    """A database that nobody shares and nothing outlives."""
    return Database(IN_MEMORY, "cloudcore")


def in_memory_states() -> Database:
    """The same for edgecontroller, without objects."""
    return Database(IN_MEMORY, "cloudcore", stores_objects=False)


def patch_status(cluster: Cluster, key: ObjectKey, patch: dict[str, Any]) -> dict[str, Any]:
    """Merge a strategic merge patch into an object's status, as a node's report."""
    return cluster.update_status(key, merge_strategic(cluster.storage.get(key), patch, schema_of(key.kind)))
