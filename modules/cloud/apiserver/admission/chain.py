"""The admission plug-ins, named as in kube-apiserver and in its order."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.api_errors import ForbiddenError, NotFoundError
from modules.apimachinery.kinds import JsonObject, key_for, key_kind, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.validation.pods import MIRROR
from modules.cloud.apiserver.admission.api_access import with_api_access
from modules.cloud.apiserver.admission.certificate_subject import certificate_subject
from modules.cloud.apiserver.admission.limit_ranger import check_claim, check_pod, with_default_amounts
from modules.cloud.apiserver.admission.pod_security import pod_security, pod_security_labels
from modules.cloud.apiserver.silent_nodes import TOLERATION_SECONDS, UNREACHABLE
from modules.cloud.apiserver.volume_protection import FINALIZERS, with_protection

Admit = Callable[[JsonObject, JsonObject | None, Lister], JsonObject]
"""Takes an object with its defaults, its stored state (None: it is created) and all objects; returns it as it is to be
stored. Raises ApiError to refuse it."""

_NAMESPACE = kind_named("Namespace")

_ACCOUNT: Final = kind_named("ServiceAccount")
_DEFAULT_ACCOUNT: Final = "default"

_POD: Final = kind_named("Pod")
_PRIORITY_CLASS: Final = kind_named("PriorityClass")
_PREEMPTS: Final = "PreemptLowerPriority"
_COMPUTED: Final = "must not be provided in pod spec; priority admission controller computed"

_TAINTS: Final = ("node.kubernetes.io/not-ready", UNREACHABLE)
_NO_EXECUTE: Final = "NoExecute"

_RUNTIME_CLASS: Final = kind_named("RuntimeClass")
_REJECTED: Final = "pod rejected: "


Validate = Callable[[JsonObject, JsonObject | None, Lister], None]
"""Takes an object that keeps the rules of its kind, its stored state and all objects. Raises ApiError to refuse it."""


class Plugin(NamedTuple):
    """An admission plug-in."""

    name: str
    """As in kube-apiserver's `--disable-admission-plugins`."""
    kinds: frozenset[str] | None
    """The kinds that it looks at; None: all."""
    admit: Admit | None = None
    """Is asked before the rules of the kind, and may change the object."""
    validate: Validate | None = None
    """Is asked after them."""


_PODS: Final = frozenset({"Pod"})


def _namespace_lifecycle(obj: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new object whose namespace exists.

    Raises:
        NotFoundError: it does not.
    """
    name = obj["metadata"].get("namespace")
    if live is None and name and objects.find(key_for(_NAMESPACE, "", name)) is None:
        raise NotFoundError(_NAMESPACE.plural, name)
    return obj


def _service_account(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod with the pull secrets of its service account. A mirror pod has no service account.

    Raises:
        ForbiddenError: the account does not exist. (That a namespace has no account `default` yet is no obstacle: it
            is made with the first change.)
    """
    if live is not None or _is_mirror(pod):
        return pod
    spec, secrets = pod["spec"], (_account_of(pod, objects) or {}).get("imagePullSecrets")
    return (
        {**pod, "spec": {**spec, "imagePullSecrets": secrets}} if secrets and not spec.get("imagePullSecrets") else pod
    )


def _service_account_with_token(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod as `_service_account` does, whose containers get a token, too (`with_api_access`).

    Raises:
        ForbiddenError: as `_service_account`.
    """
    admitted = _service_account(pod, live, objects)
    if live is not None or _is_mirror(pod):
        return admitted
    return with_api_access(admitted, _account_of(pod, objects))


def _is_mirror(pod: JsonObject) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _account_of(pod: JsonObject, objects: Lister) -> JsonObject | None:
    metadata = pod["metadata"]
    namespace, name = metadata.get("namespace") or "default", pod["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT
    account = objects.find(key_for(_ACCOUNT, namespace, name))
    if account is None and name != _DEFAULT_ACCOUNT:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise ForbiddenError("pods", metadata["name"], why)
    return account


def _priority(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a pod with its priority.

    Raises:
        ForbiddenError: the pod's class does not exist, or has another priority than the pod.
    """
    if live is not None:
        kept = {name: live["spec"][name] for name in ("priority", "preemptionPolicy") if name in live["spec"]}
        return {**pod, "spec": {**kept, **pod["spec"]}}
    return _with_priority(pod, objects)


def _with_priority(pod: JsonObject, objects: Lister) -> JsonObject:
    spec, name = pod["spec"], str(pod["spec"].get("priorityClassName") or "")
    found = objects.find(key_for(_PRIORITY_CLASS, "", name)) if name else _default_class(objects)
    if found is None and name:
        raise _refused(pod, f"no PriorityClass with name {name} was found")
    chosen = {} if found is None else {"priorityClassName": found["metadata"]["name"]}
    value, policy = int((found or {}).get("value") or 0), str((found or {}).get("preemptionPolicy") or _PREEMPTS)
    for field, told, wanted in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(field) not in (None, wanted):
            of_class = f"{wanted} from the given PriorityClass name"
            raise _refused(pod, f"the {told} ({spec[field]}) {_COMPUTED} {of_class}")
    return {**pod, "spec": {**spec, **chosen, "priority": value, "preemptionPolicy": policy}}


def _default_class(objects: Lister) -> JsonObject | None:
    """Return the PriorityClass of pods that name none: of several, the one with the lowest priority."""
    found = [each for each in objects.list(_PRIORITY_CLASS) if each.get("globalDefault")]
    return min(found, key=lambda each: int(each.get("value") or 0), default=None)


def _only_default(new: JsonObject, _live: JsonObject | None, objects: Lister) -> None:
    """Check that no other PriorityClass is the default, if this one is to be.

    Raises:
        ForbiddenError: another class is.
    """
    if not new.get("globalDefault"):
        return
    for other in objects.list(_PRIORITY_CLASS):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != new["metadata"]["name"]:
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise ForbiddenError(_PRIORITY_CLASS.plural, new["metadata"]["name"], why, _PRIORITY_CLASS.api_group)


def _refused(pod: JsonObject, why: str) -> ForbiddenError:
    return ForbiddenError(_POD.plural, pod["metadata"]["name"], why)


def _default_toleration_seconds(pod: JsonObject, _live: JsonObject | None, _objects: Lister) -> JsonObject:
    """Return a pod that tolerates both taints for some minutes, unless it has tolerations for them."""
    tolerations = pod["spec"].get("tolerations") or []
    missing = [key for key in _TAINTS if not any(_is_about(each, key) for each in tolerations)]
    if not missing:
        return pod
    added = [
        {"key": key, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": TOLERATION_SECONDS}
        for key in missing
    ]
    return {**pod, "spec": {**pod["spec"], "tolerations": [*tolerations, *added]}}


def _is_about(toleration: JsonObject, key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or _NO_EXECUTE) == _NO_EXECUTE


def _runtime_class(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod with the overhead, node selector and tolerations of its RuntimeClass.

    Raises:
        ForbiddenError: the class does not exist, or the pod contradicts it.
    """
    if live is not None:
        return pod
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    found = objects.find(key_for(_RUNTIME_CLASS, "", str(name))) if name else None
    if name and found is None:
        raise _refused(pod, f'{_REJECTED}RuntimeClass "{name}" not found')
    overhead = _overhead_of(found)
    if overhead and (spec.get("overhead") or overhead) != overhead:
        raise _refused(pod, f"{_REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    return {**pod, "spec": {**spec, **({"overhead": overhead} if overhead else {}), **_placement(pod, found or {})}}


def _overhead_of(runtime_class: JsonObject | None) -> JsonObject:
    found: JsonObject = ((runtime_class or {}).get("overhead") or {}).get("podFixed") or {}
    return found


def _overhead_of_class(pod: JsonObject, live: JsonObject | None, objects: Lister) -> None:
    """Check that a new pod with an overhead has it from its RuntimeClass.

    Raises:
        ForbiddenError: the class has none.
    """
    spec = pod["spec"]
    found = objects.find(key_for(_RUNTIME_CLASS, "", str(spec.get("runtimeClassName") or "")))
    if live is None and spec.get("overhead") and not _overhead_of(found):
        words = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _refused(pod, f"{_REJECTED}{words}")


def _placement(pod: JsonObject, runtime_class: JsonObject) -> JsonObject:
    """Return the fields of a pod's spec that the class's `scheduling` changes."""
    scheduling, spec = runtime_class.get("scheduling") or {}, pod["spec"]
    changed: JsonObject = {}
    if selector := scheduling.get("nodeSelector"):
        given = spec.get("nodeSelector") or {}
        for key, value in selector.items():
            if given.get(key, value) != value:
                of_class = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
                raise _refused(pod, f"conflict: {of_class}; pod.spec.nodeSelector[{key}] = {given[key]}")
        changed["nodeSelector"] = {**given, **selector}
    if tolerations := scheduling.get("tolerations"):
        own = spec.get("tolerations") or []
        changed["tolerations"] = [*own, *(each for each in tolerations if each not in own)]
    return changed


PLUGINS: Final = (
    Plugin("NamespaceLifecycle", None, _namespace_lifecycle),
    Plugin("LimitRanger", _PODS, with_default_amounts, check_pod),
    Plugin("LimitRanger", frozenset({"PersistentVolumeClaim"}), validate=check_claim),
    Plugin("ServiceAccount", _PODS, _service_account),
    Plugin("PodSecurity", _PODS, validate=pod_security),
    Plugin("PodSecurity", frozenset({_NAMESPACE.name}), validate=pod_security_labels),
    Plugin("Priority", _PODS, _priority),
    Plugin("Priority", frozenset({_PRIORITY_CLASS.name}), validate=_only_default),
    Plugin("DefaultTolerationSeconds", _PODS, _default_toleration_seconds),
    Plugin("StorageObjectInUseProtection", frozenset(FINALIZERS), with_protection),
    Plugin("RuntimeClass", _PODS, _runtime_class, _overhead_of_class),
    Plugin("CertificateSubjectRestriction", frozenset({"CertificateSigningRequest"}), validate=certificate_subject),
)
PLUGINS_WITH_TOKENS: Final = tuple(
    each._replace(admit=_service_account_with_token) if each.admit is _service_account else each for each in PLUGINS
)
"""The plug-ins of an API server that pods reach: their containers get tokens."""


class AdmissionChain:
    """Asks plug-ins about objects that are created and updated.

    Args:
        objects: all objects.
        plugins: in the order of the calls.
    """

    def __init__(self, objects: Lister, plugins: Sequence[Plugin] = PLUGINS) -> None:
        self._objects = objects
        self._plugins = plugins

    def admitted(self, obj: JsonObject, live: JsonObject | None = None) -> JsonObject:
        """Return an object as the plug-ins change it.

        Args:
            obj: with its defaults; it is not changed.
            live: its stored state; None: it is created.

        Raises:
            ApiError: a plug-in refuses it.
        """
        for plugin in self._plugins:
            if plugin.admit is not None and _handles(plugin, obj):
                obj = plugin.admit(obj, live, self._objects)
        return obj

    def validate(self, obj: JsonObject, live: JsonObject | None = None) -> None:
        """Ask the plug-ins about an object that keeps the rules of its kind.

        Args:
            obj: as `admitted` has returned it.
            live: its stored state; None: it is created.

        Raises:
            ApiError: a plug-in refuses it.
        """
        for plugin in self._plugins:
            if plugin.validate is not None and _handles(plugin, obj):
                plugin.validate(obj, live, self._objects)


def _handles(plugin: Plugin, obj: JsonObject) -> bool:
    return plugin.kinds is None or key_kind(obj) in plugin.kinds
