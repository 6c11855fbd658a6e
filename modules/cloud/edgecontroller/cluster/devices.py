"""The Devices and DeviceModels of a cluster, for devicecontroller."""

from http import HTTPStatus
from typing import Final

from beehive.module import Module
from beehive.names import Group
from modules.apimachinery.api_errors import MethodNotAllowedError
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.call_requests import failure
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.reflectors import Reflectors
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import ObjectChanged, ObjectChanges, WatchQuery, WatchStart

_KINDS: Final = {kind.key_name: kind for kind in (DEVICE_MODEL, DEVICE)}


class ClusterDevices:
    """The watches of devicecontroller, served from the mirror. No other module watches a cluster through cloudcore.

    Args:
        mirror: has the objects.
        reflectors: know whether it has all.
        transactions: of edgecontroller.
        module: edgecontroller.
    """

    def __init__(self, mirror: Mirror, reflectors: Reflectors, transactions: Transactions, module: Module) -> None:
        self._mirror = mirror
        self._reflectors = reflectors
        self._transactions = transactions
        self._module = module
        self.noted: list[ObjectChanged] = []
        """Committed changes that devicecontroller has not been told yet."""

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the present objects. A refusal has 404 or 403 when the API server refuses the kind, 503 when its list
        is not complete yet, and 405 for another watch.
        """
        kind = _KINDS.get(query.kind)
        if kind is None or query.version is not None:
            why = f"cloudcore serves no watch of {query.kind} of a cluster: ask the cluster's API server"
            return WatchStart(refusal=MethodNotAllowedError(why).status())
        if self._reflectors.mirrors(query.kind):
            return WatchStart(changes=[ObjectChanged(EventType.ADDED, obj) for obj in self._mirror.list(kind)])
        codes = (self._reflectors.refusal_of(each) for each in _KINDS)
        code = next((each for each in codes if each), HTTPStatus.SERVICE_UNAVAILABLE)
        why = f"the API server has not listed its {kind.plural}: deploy/devices.yaml defines them"
        return WatchStart(refusal=failure(code, why).refusal)

    def observe(self, event: ObjectEvent) -> None:
        """Take note of a change, in its transaction."""
        if event.key.kind in _KINDS:
            changed = ObjectChanged(event.type, event.new, event.old)
            self._transactions.after_commit(lambda: self.noted.append(changed))

    def notify(self) -> None:
        """Pass the changes that were committed since the last call on to devicecontroller, in one message: a message
        for each change would overflow its inbox when a large manifest is applied.
        """
        noted, self.noted = tuple(self.noted), []
        if self._module.hive.members(Group.DEVICECONTROLLER):
            changed = self._module.message(api_messages.RESOURCE, Verb.CHANGED, ObjectChanges(noted))
            self._module.broadcast(Group.DEVICECONTROLLER, changed)
