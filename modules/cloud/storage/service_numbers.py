"""The addresses and node ports that Services have, so that a new one finds free ones without looking at all others."""

from modules.apimachinery.kinds import JsonObject, ObjectKey


class ServiceNumbers:
    """By address or port, the Services that have it. Another thread may ask while one writes."""

    def __init__(self) -> None:
        self._owners: dict[object, set[ObjectKey]] = {}
        self._of: dict[ObjectKey, frozenset[object]] = {}

    def put(self, key: ObjectKey, service: JsonObject) -> None:
        """Take a stored Service."""
        before, now = self._of.get(key, frozenset()), _numbers_of(service)
        for number in before - now:
            owners = self._owners[number]
            owners.discard(key)
            if not owners:
                del self._owners[number]
        for number in now - before:
            self._owners.setdefault(number, set()).add(key)
        self._of[key] = now

    def remove(self, key: ObjectKey) -> None:
        """Take that a Service is removed."""
        self.put(key, {})
        del self._of[key]

    def others_have(self, number: object, key: ObjectKey) -> bool:
        """Return whether another Service than one has an address or a port."""
        owners = self._owners.get(number)
        return owners is not None and (key not in owners or len(owners) > 1)


def _numbers_of(service: JsonObject) -> frozenset[object]:
    spec = service.get("spec") or {}
    ports = [port.get("nodePort") for port in spec.get("ports") or ()]
    numbers = [*(spec.get("clusterIPs") or ()), *ports, spec.get("healthCheckNodePort")]
    return frozenset(each for each in numbers if each and isinstance(each, str | int))
