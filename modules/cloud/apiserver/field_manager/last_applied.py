"""kubectl's annotation `last-applied-configuration`: the manifest that `kubectl apply` has applied last by itself.

kubectl removes what that manifest has and a new one lacks. A server-side apply in between would leave the annotation
behind, and what it has added would stay for ever (managedfields, `lastAppliedUpdater`).
"""

from typing import Final

import msgspec

from modules.apimachinery.go_json import escaped
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, metadata_of
from modules.apimachinery.limits import ANNOTATION_BYTES
from modules.apimachinery.validation.metadata import bytes_of
from modules.cloud.apiserver.field_manager.managed_fields import Manager

KUBECTL: Final = "kubectl"
CLIENTS: Final = (KUBECTL, "cloudcore")
"""The managers of clients that have kept the last manifest in an annotation."""


def with_last_applied(obj: JsonObject, manifest: JsonObject, manager: Manager) -> JsonObject:
    """Return an object after a server-side apply by kubectl, with the manifest in its annotation, if it has one. There
    is no annotation of a manifest that is too large for one.

    Args:
        obj: the object.
        manifest: as the client has sent it.
        manager: who applies it. Another field manager than kubectl's leaves the annotation as it is.
    """
    annotations = metadata_of(obj).get("annotations") or {}
    if not annotations.get(LAST_APPLIED) or manager.name not in CLIENTS or manager.subresource:
        return obj
    others = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    text = _as_kubectl_writes(manifest)
    size = sum(bytes_of(part) for item in (*others.items(), (LAST_APPLIED, text)) for part in map(str, item))
    kept = others if size > ANNOTATION_BYTES else {**others, LAST_APPLIED: text}
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}


def _as_kubectl_writes(manifest: JsonObject) -> str:
    """Return the annotation for a manifest, byte by byte as `kubectl apply` itself writes it: with sorted names, and
    annotations even if there are none.
    """
    metadata = metadata_of(manifest)
    given = metadata.get("annotations") or {}
    annotations = {name: value for name, value in given.items() if name != LAST_APPLIED}
    whole = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    return escaped(msgspec.json.encode(whole, order="sorted")).decode() + "\n"
