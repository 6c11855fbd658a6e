"""Workloads and what is around them, as people write them: databases, agents of nodes, operators, what runs at an edge.

Each is accepted by a kube-apiserver 1.32.
"""

from collections.abc import Iterator
from pathlib import Path

from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.apiserver.manifests import read_manifests

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


def documents(file: Path) -> Iterator[JsonObject]:
    """Yield the objects of a file."""
    for each in read_manifests(file.read_text(), file.name):
        yield from each.content["items"] if each.content["kind"] == "List" else (each.content,)


def collection_of(obj: JsonObject) -> str:
    """Return the path where an object is created; of a custom one, with the plural that its definition here has."""
    version, kind = obj["apiVersion"], obj["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        known = kind_named(kind)
    except UnknownKindError:
        is_namespaced, plural = kind != "Device", f"{kind.lower()}s"
    else:
        is_namespaced, plural = known.namespaced, known.plural
    space = f"/namespaces/{obj['metadata'].get('namespace', 'default')}" if is_namespaced else ""
    return f"{root}{space}/{plural}"
