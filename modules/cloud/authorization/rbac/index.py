"""The roles and bindings, by subject."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.cloud.authentication.users import User, groups_of
from modules.cloud.authorization.rbac.rules import AccessRequest, PolicyRule, rules_in
from modules.cloud.storage.object_storage import EventType, ObjectEvent

ROLES: Final = ("Role", "ClusterRole")
BINDINGS: Final = ("RoleBinding", "ClusterRoleBinding")
KINDS: Final = (*ROLES, *BINDINGS)
_ACCOUNT: Final = "ServiceAccount"
_USER: Final = "User"


class _Subject(NamedTuple):
    kind: str
    """User or Group; a service account is a user."""
    name: str
    namespace: str
    """The binding's namespace; "" for all, and for cluster-scoped objects."""


class _Binding(msgspec.Struct, frozen=True):
    key: ObjectKey
    role: ObjectKey
    subjects: tuple[_Subject, ...]


class Grant(NamedTuple):
    """A rule that a user has, and from where."""

    rule: PolicyRule
    binding: ObjectKey
    role: ObjectKey
    subject: str
    """`User "carol"`, `Group "shop"`."""

    @property
    def reason(self) -> str:
        """Why a request is allowed, in the words of kube-apiserver."""
        of = f'{self.role.kind} "{self.role.name}" to {self.subject}'
        name = f"{self.binding.name}/{self.binding.namespace}" if self.binding.namespace else self.binding.name
        return f'RBAC: allowed by {self.binding.kind} "{name}" of {of}'


class RbacIndex:
    """The roles and bindings of an API server, and the decisions that follow from them.

    An update costs as much as the object is large; a decision, as much as the user has bindings for all namespaces and
    for the request's. The API server's actor updates it; other threads may read it meanwhile, since each step of
    an update leaves it whole.
    """

    def __init__(self) -> None:
        self._roles: dict[ObjectKey, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[ObjectKey, _Binding] = {}
        self._by_subject: dict[_Subject, dict[ObjectKey, None]] = {}

    def load(self, objects: Iterable[JsonObject]) -> None:
        """Take over all stored roles and bindings. Others are gone: the index outlives a restart of the API server."""
        stored = {key_of(obj): obj for obj in objects}
        for key in (self._roles.keys() | self._bindings.keys()) - stored.keys():
            self._put(key, None)
        for key, obj in stored.items():
            self._put(key, obj)

    def handle_event(self, event: ObjectEvent) -> None:
        """Update the index with a change of any object."""
        if event.key.kind in KINDS:
            self._put(event.key, None if event.type is EventType.DELETED else event.new)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yield the rules that a user has in a namespace(or ""); rules of all namespaces come first."""
        for space in ("", namespace) if namespace else ("",):
            for kind, name in ((_USER, user.name), *(("Group", group) for group in groups_of(user))):
                for key in list(self._by_subject.get(_Subject(kind, name, space), ())):
                    binding = self._bindings.get(key)
                    if binding is not None:
                        for rule in self._roles.get(binding.role, ()):
                            yield Grant(rule, key, binding.role, f'{kind} "{name}"')

    def allowed(self, user: User, request: AccessRequest) -> Grant | None:
        """Return the grant that allows a request, or None."""
        return next((each for each in self.grants(user, request.namespace) if each.rule.allows(request)), None)

    def rules_of_role(self, role: ObjectKey) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role; None if there is no such role."""
        return self._roles.get(role)

    def _put(self, key: ObjectKey, obj: JsonObject | None) -> None:
        if key.kind in ROLES:
            if obj is None:
                self._roles.pop(key, None)
            else:
                self._roles[key] = rules_in(obj)
            return
        before, binding = self._bindings.get(key), None if obj is None else _binding(key, obj)
        subjects = binding.subjects if binding is not None else ()
        for subject in before.subjects if before is not None else ():
            if subject not in subjects:
                self._drop(subject, key)
        if binding is None:
            self._bindings.pop(key, None)
        else:
            self._bindings[key] = binding
            for subject in subjects:
                self._by_subject.setdefault(subject, {})[key] = None

    def _drop(self, subject: _Subject, key: ObjectKey) -> None:
        keys = self._by_subject[subject]
        del keys[key]
        if not keys:
            del self._by_subject[subject]


def role_of(binding: ObjectKey, reference: Any) -> ObjectKey:
    """Return the key of the role that the `roleRef` of a binding names."""
    kind, name = (str(reference.get(field) or "") for field in ("kind", "name"))
    return ObjectKey(kind, binding.namespace if kind == "Role" else "", name)


def _binding(key: ObjectKey, obj: JsonObject) -> _Binding:
    subjects = dict.fromkeys(_subject(key.namespace, each) for each in obj.get("subjects") or ())
    return _Binding(key, role_of(key, obj.get("roleRef") or {}), tuple(subjects))


def _subject(namespace: str, subject: JsonObject) -> _Subject:
    kind, name = str(subject.get("kind") or ""), str(subject.get("name") or "")
    if kind == _ACCOUNT:
        name = f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
        kind = _USER
    return _Subject(kind, name, namespace)
