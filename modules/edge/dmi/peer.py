"""The objects that one mapper has, and the next one to send. Pure.

A mapper cannot be asked for its objects. So it gets all of them after its registration, and after it was unreachable.
Each success is noted with a digest, and from then on only changed objects are sent.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from beehive.backoff import Backoff
from modules.edge.dmi.catalogue import Catalogue, Key, Wanted
from protos.dmi.v1beta1 import api_pb2 as dmi

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 60.0
"""Bounds in seconds of the random delay before a refused object is sent again."""

MOST_REMOVALS: Final = 6
"""Refusals of a removal after which the mapper is assumed to lack the object: the framework has no other answer for
that."""

_UNKNOWN: Final = b""
"""Digest of an object whose state in the mapper is unknown."""


class MapperStep(NamedTuple):
    """One call to a mapper."""

    key: Key
    method: str
    request: Message
    answer: type[Message]
    digest: bytes | None
    """Digest of the state that the mapper then has; None for a removal."""
    generation: int = 0
    """Number of the mapper's process, as far as that is known."""
    notes: tuple[str, ...] = ()
    uid: str = ""
    """Of the Device."""


class _Later(NamedTuple):
    due: float
    """Monotonic seconds."""
    failures: int


class Peer:
    """The objects of a mapper, as its answers show them.

    Args:
        protocol: of the mapper.
        catalogue: of the objects that it should have.
    """

    def __init__(self, protocol: str, catalogue: Catalogue) -> None:
        self.protocol = protocol
        self._catalogue = catalogue
        self._generation = 0
        self._has: dict[Key, bytes] = {}
        self._uids: dict[Key, str] = {}
        """Of the Devices that the mapper has."""
        self._due_models: OrderedDict[Key, None] = OrderedDict()
        self._due_devices: OrderedDict[Key, None] = OrderedDict()
        self._later: dict[Key, _Later] = {}

    def record(self, key: Key, wanted: Wanted) -> None:
        """Note that the mapper has an object."""
        self._has[key], self._uids[key] = wanted.digest, wanted.uid
        self._queue_of(key).pop(key, None)

    def begin(self) -> None:
        """Note that the mapper was restarted, and has no objects."""
        self._has.clear()
        self.forget()

    def forget(self) -> None:
        """Note that the mapper may have been restarted: it gets all objects again."""
        self._generation += 1
        keys = list(self._catalogue.keys(self.protocol))
        present = set(keys)
        self._has = {key: _UNKNOWN for key in self._has if key.kind == "device" or key not in present}
        self.mark((*keys, *self._has))

    def mark(self, keys: Iterable[Key]) -> None:
        """Queue changed objects."""
        for key in keys:
            self._later.pop(key, None)
            self._queue(key)

    def doubt(self, key: Key) -> None:
        """Note that the mapper may have lost an object, which is sent again."""
        if key in self._has:
            self._has[key] = _UNKNOWN
        self._queue(key)

    def next(self, now: float) -> MapperStep | float | None:
        """Return the next call, the seconds until the next call may be due, or None if nothing is left to send."""
        for key in [key for key, one in self._later.items() if one.due <= now]:
            self._queue(key)
        step = self._next_model() or self._next_device() or self._next_removed_model()
        return step._replace(generation=self._generation) if step is not None else self._wait(now)

    def succeeded(self, step: MapperStep) -> None:
        """Note that the mapper has accepted a call. A call from before `forget` is ignored, since it does not prove
        that the present process lives.
        """
        if step.generation != self._generation:
            return
        if step.digest is None:
            self._removed(step.key)
        else:
            self._has[step.key], self._uids[step.key] = step.digest, step.uid

    def failed(self, step: MapperStep, now: float, source: random.Random) -> int:
        """Note that the mapper has refused a call; return how many times in a row it has done so.

        After a refused update the device is registered immediately: some mappers require that first.
        """
        if step.generation != self._generation:
            return 0
        failures = self._failures(step.key) + 1
        if step.digest is None and failures >= MOST_REMOVALS:
            self._removed(step.key)
            self._later.pop(step.key, None)
            return failures
        if step.digest is not None and step.key.kind == "device":
            self._has[step.key] = _UNKNOWN
        elif step.digest is not None:
            self._has.pop(step.key, None)
        backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        backoff.failures = failures // 2 if step.key.kind == "device" else failures - 1
        at_once = step.method == "UpdateDevice" and failures % 2 == 1
        delay = 0.0 if at_once else max(FIRST_DELAY / 2, backoff.next(source))
        self._later[step.key] = _Later(now + delay, failures)
        return failures

    def _removed(self, key: Key) -> None:
        self._has.pop(key, None)
        self._uids.pop(key, None)
        if key.kind == "device":
            self._queue(key)  # a later Device of its name, perhaps

    def _is_another(self, key: Key, wanted: Wanted) -> bool:
        """Return whether the mapper has an earlier Device of the name: it would take the later one for unchanged, and
        never report its state.
        """
        return self._has.get(key, _UNKNOWN) != _UNKNOWN and self._uids.get(key, wanted.uid) != wanted.uid

    def _failures(self, key: Key) -> int:
        later = self._later.get(key)
        return later.failures if later is not None else 0

    def _queue(self, key: Key) -> None:
        self._queue_of(key)[key] = None

    def _queue_of(self, key: Key) -> OrderedDict[Key, None]:
        return self._due_models if key.kind == "model" else self._due_devices

    def _next_model(self) -> MapperStep | None:
        for key in list(self._due_models):
            wanted = self._catalogue.wanted(self.protocol, key)
            if wanted is None:
                if key not in self._has:
                    self._later.pop(key, None)
                    del self._due_models[key]
                continue
            del self._due_models[key]
            if self._has.get(key) != wanted.digest:
                return _put(key, wanted, is_known=key in self._has, failures=0)
            self._later.pop(key, None)
        return None

    def _next_device(self) -> MapperStep | None:
        while self._due_devices:
            key, _ = self._due_devices.popitem(last=False)
            wanted = self._catalogue.wanted(self.protocol, key)
            has = self._has.get(key)
            if has is not None and (wanted is None or self._is_another(key, wanted)):
                return _remove(key)
            if wanted is None or has == wanted.digest:
                self._later.pop(key, None)
                continue
            waiting = self._later.get(Key("model", wanted.model))
            if waiting is not None:
                self._later[key] = _Later(waiting.due, self._failures(key))
                continue
            return _put(key, wanted, is_known=True, failures=self._failures(key))
        return None

    def _next_removed_model(self) -> MapperStep | None:
        if not self._due_models:
            return None
        key, _ = self._due_models.popitem(last=False)
        return _remove(key)

    def _wait(self, now: float) -> float | None:
        return max(0.05, min(one.due for one in self._later.values()) - now) if self._later else None


def _put(key: Key, wanted: Wanted, *, is_known: bool, failures: int) -> MapperStep:
    message: Any = wanted.message
    if key.kind == "model":
        if is_known:
            request: Message = dmi.UpdateDeviceModelRequest(model=message)
            return MapperStep(key, "UpdateDeviceModel", request, dmi.UpdateDeviceModelResponse, wanted.digest)
        request = dmi.CreateDeviceModelRequest(model=message)
        return MapperStep(key, "CreateDeviceModel", request, dmi.CreateDeviceModelResponse, wanted.digest)
    if failures % 2:
        request = dmi.RegisterDeviceRequest(device=message)
        step = MapperStep(key, "RegisterDevice", request, dmi.RegisterDeviceResponse, wanted.digest)
    else:
        request = dmi.UpdateDeviceRequest(device=message)
        step = MapperStep(key, "UpdateDevice", request, dmi.UpdateDeviceResponse, wanted.digest)
    return step._replace(notes=wanted.notes, uid=wanted.uid)


def _remove(key: Key) -> MapperStep:
    namespace, _, name = key.id.partition("/")
    if key.kind == "model":
        request: Message = dmi.RemoveDeviceModelRequest(modelName=name, modelNamespace=namespace)
        return MapperStep(key, "RemoveDeviceModel", request, dmi.RemoveDeviceModelResponse, None)
    request = dmi.RemoveDeviceRequest(deviceName=name, deviceNamespace=namespace)
    return MapperStep(key, "RemoveDevice", request, dmi.RemoveDeviceResponse, None)
