"""Events of an object, as `kubectl describe` shows them."""

from types import NoneType

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import ObjectMeta, ObjectReference
from modules.apimachinery.types.times import MicroTime, Time


class EventSource(KubeStruct, frozen=True):
    """The reporting component, and its node."""

    component: str = ""
    host: str = ""


class Event(KubeStruct, frozen=True):
    """v1.Event, as client-go's recorder fills it in. `event_time` belongs to the newer events API and stays null."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = field(default_factory=EventSource)
    first_timestamp: Time | None = field(default_factory=NoneType)
    last_timestamp: Time | None = field(default_factory=NoneType)
    count: int = 0
    type: str = ""
    event_time: MicroTime | None = field(default_factory=NoneType)
    reporting_component: str = field(default_factory=str)
    reporting_instance: str = field(default_factory=str)
