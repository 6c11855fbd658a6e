"""The states that objects have had of late."""

from modules.apimachinery.kinds import JsonObject, uid_of


class RecentStates:
    """Former states of objects with the times of their ends, by uid, kept for as long as they are asked for."""

    def __init__(self) -> None:
        self._former: dict[str, list[tuple[float, JsonObject]]] = {}
        """Former states, the oldest first, each with its end."""
        self._began: dict[str, float] = {}

    def record(self, uid: str, new: JsonObject | None, old: JsonObject | None, now: float, since: float) -> None:
        """Note a change.

        Args:
            uid: of the object.
            new: its present state, or None if it was deleted.
            old: its former state, or None if it is new.
            now: the present time.
            since: states that ended before this time are no longer asked for.
        """
        if new is None:
            self._former.pop(uid, None)
            self._began.pop(uid, None)
            return
        if old is None:
            self._began[uid] = now
            return
        kept = [(end, state) for end, state in self._former.get(uid, ()) if end >= since]
        self._former[uid] = [*kept, (now, old)]

    def since(self, obj: JsonObject, moment: float) -> list[JsonObject]:
        """Return the states that an object has had since a time, the present one last."""
        former = self._former.get(uid_of(obj), ())
        return [*(state for end, state in former if end >= moment), obj]

    def began(self, obj: JsonObject) -> float:
        """Return when an object was made; minus infinity if that was not seen."""
        return self._began.get(uid_of(obj), float("-inf"))
