"""KubeEdge's ObjectSyncs, read once when cloudcore takes the place of KubeEdge's."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_for, kind_named
from modules.apimachinery.lister import Lister
from modules.cloud.client.calls import ApiCall, ApiResult, CallSender
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.edgecontroller.state.object_syncs import is_storable, number_of
from modules.cloud.storage.object_sync import ObjectSync

_log = logging.getLogger(__name__)

API_VERSION: Final = "reliablesyncs.kubeedge.io/v1alpha1"
_RESOURCES: Final = ("objectsyncs", "clusterobjectsyncs")
_PAGE: Final = 500
_MAX_PAGES: Final = 1000
_ATTEMPTS: Final = 3
_KINDS: Final = ("Node", "Pod", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment")
"""The kinds that both KubeEdge's cloudcore and this one send."""
_DEVICES: Final = {(kind.api_group, kind.name): kind for kind in (DEVICE_MODEL, DEVICE)}
"""The same, custom kinds. They count as sent and not as acknowledged: KubeEdge's edge acknowledges a device also when
it tells neither its devicetwin nor a mapper of it.
"""

Imported = dict[str, dict[str, ObjectSync]]
"""By node and uid."""


class ObjectSyncImport:
    """The list of the ObjectSyncs and ClusterObjectSyncs. A missing right or definition is no error: there is nothing
    to import then.

    Args:
        api: sends API calls.
        lister: the objects of the cluster.
        done: takes the versions that nodes have acknowledged; called once.
    """

    def __init__(self, api: CallSender, lister: Lister, done: Callable[[Imported], None]) -> None:
        self._api = api
        self._lister = lister
        self._done = done
        self._found: Imported = {}
        self._waiting = list(_RESOURCES)
        self._pages = 0
        self._failures = 0

    def start(self) -> None:
        """Ask for the first page."""
        self._ask("")

    def _ask(self, token: str) -> None:
        if not self._waiting or self._pages >= _MAX_PAGES:
            self._done(self._found)
            return
        self._pages += 1
        options: JsonObject = {"limit": str(_PAGE), **({"continue": token} if token else {})}
        call = ApiCall(verb="list", api_version=API_VERSION, plural=self._waiting[0], options=options)
        self._api.send(call, lambda result: self._answered(result, token))

    def _answered(self, result: ApiResult, token: str) -> None:
        page = result.object
        if page is not None:
            for node, uid, sync in _entries_of(page, self._lister.find):
                self._found.setdefault(node, {})[uid] = sync
            metadata = page.get("metadata")
            token = str(metadata.get("continue") or "") if isinstance(metadata, dict) else ""
            if not token:
                self._waiting.pop(0)
            self._ask(token)
            return
        code, message = (result.refusal or {}).get("code", 0), (result.refusal or {}).get("message", "")
        self._failures += 1
        if code < 500 or self._failures >= _ATTEMPTS:
            log = _log.debug if code == 404 else _log.info
            log("KubeEdge's %s are not read: %s", self._waiting.pop(0), message)
            token = ""
        self._ask(token)


def _entries_of(
    page: JsonObject, find: Callable[[ObjectKey], JsonObject | None]
) -> Iterator[tuple[str, str, ObjectSync]]:
    items = page.get("items")
    for item in items if isinstance(items, list) else ():
        try:
            entry = entry_of(item, find)
        except (TypeError, ValueError, AttributeError, KeyError):
            continue
        if entry is not None:
            yield entry


def entry_of(item: JsonObject, find: Callable[[ObjectKey], JsonObject | None]) -> tuple[str, str, ObjectSync] | None:
    """Return the node, the object's uid and the ObjectSync of one of KubeEdge's; None if it does not count: of
    another kind, of a node that is not there, or from the time before the Node was made.

    Raises:
        TypeError: something has another type than KubeEdge's; likewise ValueError, AttributeError and KeyError.
    """
    metadata, spec = item["metadata"], item["spec"]
    node, dot, uid = metadata["name"].rpartition(".")
    of_device = _DEVICES.get((spec["objectAPIVersion"].partition("/")[0], spec["objectKind"]))
    if not dot or (spec["objectKind"] not in _KINDS and of_device is None):
        return None
    live = find(key_for(kind_named("Node"), "", node))
    if live is None or metadata["creationTimestamp"] < live["metadata"]["creationTimestamp"]:
        return None
    key = key_for(of_device or kind_named(spec["objectKind"]), metadata.get("namespace", ""), spec["objectName"])
    version = (item.get("status") or {}).get("objectResourceVersion") or "0"
    if not is_storable(uid, key):
        return None
    return node, uid, ObjectSync(key, 0 if of_device else number_of(version))
