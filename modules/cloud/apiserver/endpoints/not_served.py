"""Resources that Kubernetes serves and cloudcore does not: the error says what to do instead."""

from typing import Final

from metamanager.application import Target
from modules.apimachinery.errors import ApiStatusError, no_such_path
from modules.apimachinery.resources import SCALE, Resource

_NO_AUTOSCALER: Final = "nothing is scaled by itself here: `kubectl scale` sets the number of replicas"
_NO_LIMITS: Final = "nothing is limited here for a namespace; resources.limits of containers are kept by their nodes"
_RESIZE: Final = "resize"
_GROUPS: Final = {
    "autoscaling": _NO_AUTOSCALER,
    "networking.k8s.io": "services have no network here; hostPort or hostNetwork of a pod opens a port of its node",
    "apiregistration.k8s.io": "no other API servers are behind this one: serve kinds by CustomResourceDefinitions",
    "admissionregistration.k8s.io": "no webhooks are called here",
}
_OF_CORE: Final = {
    "resourcequotas": _NO_LIMITS,
    "limitranges": _NO_LIMITS,
    "componentstatuses": "`kubectl get --raw /readyz?verbose` says what is ready",
    "podtemplates": "no controller of Kubernetes reads them; a Deployment has its template in itself",
}


def not_served(target: Target) -> ApiStatusError:
    """Return the error for a resource that is not served, with kube-apiserver's words and advice."""
    why = _OF_CORE.get(target.plural, "") if not target.group else _GROUPS.get(target.group, "")
    return _with(why)


def check_subresource(target: Target, resource: Resource) -> None:
    """Raise ApiStatusError, 404, for a resource that kubectl wants to scale and that has no replicas, and for a resize
    of a pod.
    """
    if target.subresource == _RESIZE and resource.kind == "Pod":
        raise _with("containers are not resized in place here: make the pod again with other resources")
    if target.subresource == SCALE and SCALE not in resource.subresources:
        raise _with(
            f"{resource.plural} have no replicas; those of Deployments, ReplicaSets and StatefulSets are scaled"
        )


def _with(why: str) -> ApiStatusError:
    error = no_such_path()
    return ApiStatusError(error.code, f"{error.message}: {why}") if why else error
