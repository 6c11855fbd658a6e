"""The admission plug-in ServiceAccount: the account of a pod, with its pull secrets and its token."""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.pods.objects import is_mirror
from modules.cloud.apiserver.admission.api_access import with_api_access

_ACCOUNT: Final = kind_named("ServiceAccount")
_DEFAULT_ACCOUNT: Final = "default"


def service_account(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod with the pull secrets of its service account. A mirror pod has no service account.

    Raises:
        ForbiddenError: the account does not exist. (That a namespace has no account `default` yet is no obstacle: it
            is made with the first change.)
    """
    if live is not None or is_mirror(pod):
        return pod
    spec, secrets = pod["spec"], (_account_of(pod, objects) or {}).get("imagePullSecrets")
    return (
        {**pod, "spec": {**spec, "imagePullSecrets": secrets}} if secrets and not spec.get("imagePullSecrets") else pod
    )


def service_account_with_token(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod as `service_account` does, whose containers get a token, too (`with_api_access`).

    Raises:
        ForbiddenError: as `service_account`.
    """
    admitted = service_account(pod, live, objects)
    if live is not None or is_mirror(pod):
        return admitted
    return with_api_access(admitted, _account_of(pod, objects))


def _account_of(pod: JsonObject, objects: Lister) -> JsonObject | None:
    metadata = pod["metadata"]
    namespace, name = metadata.get("namespace") or "default", pod["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT
    account = objects.find(key_for(_ACCOUNT, namespace, name))
    if account is None and name != _DEFAULT_ACCOUNT:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise ForbiddenError("pods", metadata["name"], why)
    return account
