"""New Devices of a cluster that wait for their models."""

from collections.abc import Callable
from functools import partial
from typing import Final

from beehive.clock import Timer
from beehive.module import Module
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.devices import DEVICE
from modules.cloud.edgecontroller.devices.placements import placement_of
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.mirrored_bodies import compact

_SECONDS: Final = 2.0
"""Seconds that a Device waits; in KubeEdge ten, and no other device is sent meanwhile."""
_MOST: Final = 1000
"""Devices that wait; the others are sent without their models."""


class HeldDevices:
    """The new Devices, each kept back until its model is in the mirror, for a moment: two watches tell of the two, in
    any order, and a node has to get the model first.

    Args:
        mirror: of the objects.
        module: edgecontroller.
        observe: takes over a Device.
    """

    def __init__(self, mirror: Mirror, module: Module, observe: Callable[[ObservedObject], None]) -> None:
        self._mirror = mirror
        self._module = module
        self._observe = observe
        self._held: dict[ObjectKey, tuple[ObservedObject, ObjectKey]] = {}
        """The newest form of each, and its model."""
        self._listed: Timer | None = None

    def holds(self, observed: ObservedObject) -> bool:
        """Return whether a Device waits now."""
        key = ObjectKey(DEVICE.key_name, observed.namespace, observed.name)
        was_held = self._held.pop(key, None) is not None
        model = self._awaited_by(key, observed)
        if model is None:
            return False
        self._held[key] = (observed, model)
        if not was_held:
            self._module.after(_SECONDS, partial(self._late, key))
        return True

    def drop(self, key: ObjectKey) -> None:
        """Take that an object was deleted."""
        self._held.pop(key, None)

    def release(self, model: ObjectKey) -> None:
        """Hand over the Devices that wait for a model: it has come."""
        released = [(key, observed) for key, (observed, awaited) in self._held.items() if awaited == model]
        for key, observed in released:
            del self._held[key]
            self._observe(observed)

    def after_those_now(self, listed: Callable[[], None]) -> None:
        """Call `listed` when all Devices that wait now are handed over; at once if none does. After several calls, the
        last one counts.
        """
        self.forget_listed()
        if self._held:
            self._listed = self._module.after(_SECONDS, listed)
        else:
            listed()

    def forget_listed(self) -> None:
        """No longer call `listed`: the Devices are listed again."""
        if self._listed is not None:
            self._listed.cancel()
            self._listed = None

    def _awaited_by(self, key: ObjectKey, observed: ObservedObject) -> ObjectKey | None:
        """Return the model that a Device has to wait for, if any."""
        if self._mirror.revision_of(key) is not None or len(self._held) >= _MOST:
            return None
        read = compact(DEVICE, observed)
        model = placement_of(read[0]).model if read is not None else None
        return model if model is not None and self._mirror.revision_of(model) is None else None

    def _late(self, key: ObjectKey) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._observe(held[0])
