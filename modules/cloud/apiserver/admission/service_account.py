"""The admission plug-in ServiceAccount: the account that a pod runs as exists, and its pull secrets are the pod's."""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.validation.pods import MIRROR

_ACCOUNT: Final = kind_named("ServiceAccount")
_DEFAULT: Final = "default"


def admit(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod with what its service account gives it. A mirror pod has none.

    Raises:
        ForbiddenError: the account does not exist. (That a namespace has no account `default` yet is no obstacle: it
            is made with the first change.)
    """
    metadata, spec = pod["metadata"], pod["spec"]
    if live is not None or MIRROR in (metadata.get("annotations") or {}):
        return pod
    namespace, name = metadata.get("namespace") or "default", spec.get("serviceAccountName") or _DEFAULT
    account = objects.find(key_for(_ACCOUNT, namespace, name))
    if account is None and name != _DEFAULT:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise ForbiddenError("pods", metadata["name"], why)
    secrets = (account or {}).get("imagePullSecrets")
    return (
        {**pod, "spec": {**spec, "imagePullSecrets": secrets}} if secrets and not spec.get("imagePullSecrets") else pod
    )
