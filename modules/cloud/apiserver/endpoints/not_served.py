"""Resources that Kubernetes serves and cloudcore does not: the error says what to do instead."""

from typing import Final

from metamanager.application import Target
from modules.apimachinery.errors import ApiStatusError, no_such_path

_PODS: Final = "make pods: `kubectl run`, or `kubectl apply` of manifests with kind Pod"
_NO_CONTROLLERS: Final = f"there are no controllers here, only pods; {_PODS}"
_NO_ROLES: Final = "there are no roles here: members of system:masters may do everything, and nodes what they need"
_NO_LIMITS: Final = "nothing is limited here for a namespace; resources.limits of containers are kept by their nodes"
_GROUPS: Final = {
    "apps": _NO_CONTROLLERS,
    "batch": _NO_CONTROLLERS,
    "autoscaling": _NO_CONTROLLERS,
    "rbac.authorization.k8s.io": _NO_ROLES,
    "networking.k8s.io": "services have no network here; hostPort or hostNetwork of a pod opens a port of its node",
    "policy": "evictions are never held up here: there are no PodDisruptionBudgets",
    "scheduling.k8s.io": "there are no PriorityClasses here: write spec.priority of pods",
    "admissionregistration.k8s.io": "no webhooks are called here",
}
_OF_CORE: Final = {
    "replicationcontrollers": _NO_CONTROLLERS,
    "resourcequotas": _NO_LIMITS,
    "limitranges": _NO_LIMITS,
    "componentstatuses": "`kubectl get --raw /readyz?verbose` says what is ready",
    "podtemplates": _NO_CONTROLLERS,
}
_SCALE: Final = "scale"


def not_served(target: Target) -> ApiStatusError:
    """Return the error for a resource that is not served, with kube-apiserver's words and advice."""
    why = _OF_CORE.get(target.plural, "") if not target.group else _GROUPS.get(target.group, "")
    return _with(why)


def check_subresource(target: Target) -> None:
    """Raise ApiStatusError, 404, for the subresource that no resource has here, but kubectl asks for (`scale`)."""
    if target.subresource == _SCALE:
        raise _with(_NO_CONTROLLERS)


def _with(why: str) -> ApiStatusError:
    error = no_such_path()
    return ApiStatusError(error.code, f"{error.message}: {why}") if why else error
