"""The admission plug-ins, named as in kube-apiserver and in its order."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.api_errors import NotFoundError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister
from modules.cloud.apiserver.admission.certificate_subject import certificate_subject
from modules.cloud.apiserver.admission.classes import check_resize, with_ingress_class, with_storage_class
from modules.cloud.apiserver.admission.limit_ranger import check_claim, check_pod, with_default_amounts
from modules.cloud.apiserver.admission.pod_security import pod_security, pod_security_labels
from modules.cloud.apiserver.admission.priority import only_default, with_priority
from modules.cloud.apiserver.admission.runtime_class import check_overhead, with_runtime_class
from modules.cloud.apiserver.admission.service_account import service_account, service_account_with_token
from modules.cloud.apiserver.silent_nodes import TOLERATION_SECONDS, UNREACHABLE
from modules.cloud.apiserver.volume_protection import FINALIZERS, with_protection

Admit = Callable[[JsonObject, JsonObject | None, Lister], JsonObject]
"""Takes an object with its defaults, its stored state (None: it is created) and all objects; returns it as it is to be
stored. Raises ApiError to refuse it."""

_NAMESPACE = kind_named("Namespace")

_TAINTS: Final = ("node.kubernetes.io/not-ready", UNREACHABLE)
_NO_EXECUTE: Final = "NoExecute"

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
_CLAIMS: Final = frozenset({"PersistentVolumeClaim"})


def _namespace_lifecycle(obj: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new object whose namespace exists.

    Raises:
        NotFoundError: it does not.
    """
    name = obj["metadata"].get("namespace")
    if live is None and name and objects.find(key_for(_NAMESPACE, "", name)) is None:
        raise NotFoundError(_NAMESPACE.plural, name)
    return obj


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


PLUGINS: Final = (
    Plugin("NamespaceLifecycle", None, _namespace_lifecycle),
    Plugin("LimitRanger", _PODS, with_default_amounts, check_pod),
    Plugin("LimitRanger", _CLAIMS, validate=check_claim),
    Plugin("ServiceAccount", _PODS, service_account),
    Plugin("PodSecurity", _PODS, validate=pod_security),
    Plugin("PodSecurity", frozenset({_NAMESPACE.name}), validate=pod_security_labels),
    Plugin("Priority", _PODS, with_priority),
    Plugin("Priority", frozenset({"PriorityClass"}), validate=only_default),
    Plugin("DefaultTolerationSeconds", _PODS, _default_toleration_seconds),
    Plugin("DefaultStorageClass", _CLAIMS, with_storage_class),
    Plugin("StorageObjectInUseProtection", frozenset(FINALIZERS), with_protection),
    Plugin("PersistentVolumeClaimResize", _CLAIMS, validate=check_resize),
    Plugin("RuntimeClass", _PODS, with_runtime_class, check_overhead),
    Plugin("CertificateSubjectRestriction", frozenset({"CertificateSigningRequest"}), validate=certificate_subject),
    Plugin("DefaultIngressClass", frozenset({"Ingress"}), with_ingress_class),
)
PLUGINS_WITH_TOKENS: Final = tuple(
    each._replace(admit=service_account_with_token) if each.admit is service_account else each for each in PLUGINS
)
"""The plug-ins of an API server that pods reach: their containers get tokens."""


class AdmissionChain:
    """The admission plug-ins, which are asked about objects that are created and updated.

    Args:
        objects: all objects.
        plugins: in the order of the calls.
    """

    def __init__(self, objects: Lister, plugins: Sequence[Plugin] = PLUGINS) -> None:
        self._objects = objects
        self._of_all = tuple(each for each in plugins if each.kinds is None)
        kinds = {kind for each in plugins for kind in each.kinds or ()}
        self._by_kind = {
            kind: tuple(each for each in plugins if each.kinds is None or kind in each.kinds) for kind in kinds
        }
        """The plug-ins that look at a kind; `_of_all` look at every other kind."""

    def admitted(self, kind: str, obj: JsonObject, live: JsonObject | None = None) -> JsonObject:
        """Return an object as the plug-ins change it.

        Args:
            kind: its kind, as in keys.
            obj: with its defaults; it is not changed.
            live: its stored state; None: it is created.

        Raises:
            ApiError: a plug-in refuses it.
        """
        for plugin in self._by_kind.get(kind, self._of_all):
            if plugin.admit is not None:
                obj = plugin.admit(obj, live, self._objects)
        return obj

    def validate(self, kind: str, obj: JsonObject, live: JsonObject | None = None) -> None:
        """Ask the plug-ins about an object that keeps the rules of its kind.

        Args:
            kind: its kind, as in keys.
            obj: as `admitted` has returned it.
            live: its stored state; None: it is created.

        Raises:
            ApiError: a plug-in refuses it.
        """
        for plugin in self._by_kind.get(kind, self._of_all):
            if plugin.validate is not None:
                plugin.validate(obj, live, self._objects)
