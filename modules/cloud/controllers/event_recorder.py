"""The Events of controllers; a repeated one is counted, as by client-go's recorder."""

from typing import Final

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, key_of, uid_of, version_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import ApiCall
from modules.cloud.controllers.plan import EventNote

_REMEMBERED: Final = 256
_LONGEST: Final = 1024
"""Characters of a message (kube-apiserver's limit)."""


class EventRecorder:
    """A maker of the calls that store Events.

    Args:
        clock: the time, and ids for the names of Events.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: dict[tuple[str, str, str], JsonObject] = {}

    def call(self, reconciled: JsonObject, note: EventNote) -> ApiCall:
        """Return the call that stores an Event of an object's controller, or counts it again."""
        message, moment = note.message[:_LONGEST], format_rfc3339(self._clock.now())
        about = note.about or reconciled
        what = (uid_of(about), note.reason, message)
        known = self._latest.pop(what, None)
        if known is None:
            event = self._made(key_of(reconciled).kind, about, note, message, moment)
        else:
            event = {**known, "lastTimestamp": moment, "count": known["count"] + 1}
        self._latest[what] = event
        if len(self._latest) > _REMEMBERED:
            del self._latest[next(iter(self._latest))]
        name = event["metadata"]["name"] if known is not None else ""
        return ApiCall(
            verb="create" if known is None else "update",
            api_version="v1",
            plural="events",
            namespace=event["metadata"]["namespace"],
            name=name,
            body=event,
        )

    def _made(self, kind: str, about: JsonObject, note: EventNote, message: str, moment: str) -> JsonObject:
        key = key_of(about)
        component = f"{kind.lower().removesuffix('controller')}-controller"
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": f"{key.name[:230]}.{self._clock.new_id()[-16:].lower()}", "namespace": key.namespace},
            "involvedObject": {
                "kind": about["kind"],
                "apiVersion": about["apiVersion"],
                "namespace": key.namespace,
                "name": key.name,
                "uid": uid_of(about),
                "resourceVersion": version_of(about),
            },
            "reason": note.reason,
            "message": message,
            "type": note.type,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
