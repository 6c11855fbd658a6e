"""What the objects of namespaces count for in their ResourceQuotas."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import msgspec

from beehive.clock import Clock
from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, kind_named, version_of
from modules.apimachinery.pods.objects import has_ended
from modules.apimachinery.types.quantity import QuantityError, parse_quantity
from modules.cloud.apiserver.quotas.scopes import is_about
from modules.cloud.apiserver.quotas.usage import Amounts, missing_amounts, returned_by, shown, usage_of, written
from modules.cloud.apiserver.reconciler import Attempt, Reconciler
from modules.cloud.storage.object_storage import EventType, ObjectEvent, Storage

_QUOTA: Final = kind_named("ResourceQuota")
_POD: Final = "Pod"
_ZERO: Final = Fraction(0)
_COUNTED_BY_SPEC: Final = (_POD, "PersistentVolumeClaim", "Service")


class _Account(msgspec.Struct):
    """One quota."""

    quota: JsonObject
    hard: dict[str, Fraction]
    used: dict[str, Fraction]

    def excess(self, asked: Amounts, returned: Amounts = MappingProxyType({})) -> str:
        """Return which amounts would exceed the bounds, in Kubernetes' words, or "".

        Args:
            asked: the amounts.
            returned: counted amounts that are free again.
        """
        used = {name: amount - returned.get(name, _ZERO) for name, amount in self.used.items()}
        over = [
            name for name in self.hard.keys() & asked.keys()
            if asked[name] > 0 and used[name] + asked[name] > self.hard[name]
        ]  # fmt: skip
        if not over:
            return ""
        told = (("requested", asked), ("used", used), ("limited", self.hard))
        return ", ".join(f"{word}: {shown({name: amounts[name] for name in over})}" for word, amounts in told)

    def count(self, amounts: Amounts, sign: int) -> bool:
        """Add amounts, or take them off; return whether one of them is bounded."""
        bounded = self.hard.keys() & amounts.keys()
        for name in bounded:
            self.used[name] += sign * amounts[name]
        return bool(bounded)


class QuotaLedger(Reconciler):
    """The usage of ResourceQuotas by the objects of their namespaces, counted by differences: each change counts once,
    and a namespace is read only after one of its quotas was made or has another spec.

    Args:
        storage: has the objects.
        clock: the present time.
    """

    name = "resourcequota-controller"

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._accounts: dict[str, dict[ObjectKey, _Account]] = {}
        """By namespace, only those with quotas."""
        self._uncounted = dict[ObjectKey, None]()
        """The quotas that are to be counted before the next object is checked."""
        self._version = 0
        """The version of the latest change that counts."""
        self._changed = dict[ObjectKey, None]()
        """The quotas whose status is to be written."""

    def load(self) -> None:
        """Have all quotas counted."""
        self._accounts.clear()
        for quota in self._storage.list(_QUOTA):
            self._close(key_of(quota))

    def handle_event(self, event: ObjectEvent) -> None:
        """Take a change of an object."""
        self._version = max(self._version, int(event.new["metadata"]["resourceVersion"]))
        new = None if event.type is EventType.DELETED else event.new
        if event.key.kind == _QUOTA.name and not event.keeps_spec:
            self._close(event.key)
        elif event.key.kind == _QUOTA.name and not self._is_current(event.new):
            self._changed[event.key] = None
        self._count(event.key, event.old, new)

    def roll_back(self, event: ObjectEvent) -> None:
        """Take a change back, after the storage has. It may never have been taken, as in a dry run."""
        version = int(version_of(event.new))
        if version > self._version:
            return
        self._version = version - 1
        if event.key.kind == _QUOTA.name:
            self._close(event.key)
        self._count(event.key, None if event.type is EventType.DELETED else event.new, event.old)

    def check(self, key: ObjectKey, new: JsonObject, live: JsonObject | None) -> None:
        """Check that an object exceeds no quota of its namespace.

        Args:
            key: the object's.
            new: the object with its defaults.
            live: its stored state; None: it is created.

        Raises:
            ForbiddenError: it does.
        """
        self._open()
        accounts = self._accounts.get(key.namespace)
        if not accounts:
            return
        kind = self._storage.kinds.of_object(new)
        after, before = usage_of(new, kind), {} if live is None else usage_of(live, kind)
        for name, account in sorted(accounts.items()):
            if not is_about(account.quota, new):
                continue
            if live is None and kind.key_name == _POD and (lacking := missing_amounts(new, account.hard)):
                why = f"failed quota: {name.name}: must specify {lacking}"
                raise ForbiddenError(kind.plural, key.name, why, kind.api_group)
            counted = before if live is not None and is_about(account.quota, live) else {}
            asked = {each: after[each] - counted.get(each, _ZERO) for each in after}
            if account.excess(asked) and (why := account.excess(asked, self._returned(account.quota))):
                why = f"exceeded quota: {name.name}, {why}"
                raise ForbiddenError(kind.plural, key.name, why, kind.api_group)

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - it is done in one part
        """Write the status of the quotas whose use has changed."""
        if self._changed or self._uncounted:
            attempt(self.keep_statuses)
        return False

    def keep_statuses(self) -> None:
        """Write the statuses that are out of date."""
        for quota in self.drain_changed():
            self._storage.replace(quota)

    def drain_changed(self) -> Iterator[JsonObject]:
        """Yield the quotas whose status is out of date, with the present one."""
        self._open()
        changed, self._changed = self._changed, {}
        for key in changed:
            account, stored = self._accounts.get(key.namespace, {}).get(key), self._storage.find(key)
            if account is not None and stored is not None:
                yield {**stored, "status": _status_of(account, stored)}

    def _is_current(self, quota: JsonObject) -> bool:
        """Return whether the status of a quota has the counts: somebody may have written another one."""
        key = key_of(quota)
        account = self._accounts.get(key.namespace, {}).get(key)
        return account is None or quota.get("status") == _status_of(account, quota)

    def _count(self, key: ObjectKey, old: JsonObject | None, new: JsonObject | None) -> None:
        accounts = self._accounts.get(key.namespace)
        if not accounts or (old is not None and new is not None and _count_alike(key.kind, old, new)):
            return
        for obj, sign in ((old, -1), (new, 1)):
            if obj is None:
                continue
            used = usage_of(obj, self._storage.kinds.of_object(obj))
            for name, account in accounts.items():
                if is_about(account.quota, obj) and account.count(used, sign):
                    self._changed[name] = None

    def _returned(self, quota: JsonObject) -> Amounts:
        """Return the amounts of a quota's pods that their nodes should have ended, and do not."""
        found, now = defaultdict[str, Fraction](Fraction), self._clock.now()
        for key in self._storage.keys_in(kind_named(_POD), quota["metadata"]["namespace"]):
            pod = self._storage.get(key)
            if is_being_deleted(pod) and is_about(quota, pod):
                for name, amount in returned_by(pod, now).items():
                    found[name] += amount
        return found

    def _close(self, key: ObjectKey) -> None:
        """Forget the use of a quota, and have it counted again if the quota exists then."""
        of_namespace = self._accounts.get(key.namespace, {})
        if of_namespace.pop(key, None) is not None and not of_namespace:
            del self._accounts[key.namespace]
        self._uncounted[key] = None

    def _open(self) -> None:
        """Count the quotas that are to be counted."""
        while self._uncounted:
            key, _ = self._uncounted.popitem()
            quota = self._storage.find(key)
            if quota is None:
                continue
            hard = _amounts(_hard_of(quota))
            account = _Account(quota, hard, dict.fromkeys(hard, _ZERO))
            for obj in self._storage.in_namespace(key.namespace):
                if is_about(quota, obj):
                    account.count(usage_of(obj, self._storage.kinds.of_object(obj)), 1)
            self._accounts.setdefault(key.namespace, {})[key] = account
            self._changed[key] = None


def _status_of(account: _Account, quota: JsonObject) -> JsonObject:
    used = {name: written(name, amount) for name, amount in sorted(account.used.items())}
    return {"hard": _hard_of(quota), "used": used}


def _hard_of(quota: JsonObject) -> JsonObject:
    """Return the bounds of a quota as they are written. Kubernetes accepts a quota without a spec."""
    return (quota.get("spec") or {}).get("hard") or {}


def _amounts(hard: JsonObject) -> dict[str, Fraction]:
    """Return the bounds of a quota that can be read; an older version may have stored others."""
    found = {}
    for name, amount in hard.items():
        with suppress(QuantityError):
            found[name] = parse_quantity(amount)
    return found


def _count_alike(kind: str, old: JsonObject, new: JsonObject) -> bool:
    """Return whether two states of an object certainly count for the same: most changes are of a status."""
    if kind not in _COUNTED_BY_SPEC:
        return True
    before, after = old.get("spec"), new.get("spec")
    return (before is after or before == after) and has_ended(old) == has_ended(new)
