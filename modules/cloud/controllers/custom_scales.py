"""The scales of custom objects that control pods: they are read by their subresource `scale`, as by KCM 1.32
(`getScaleController` in `pkg/controller/disruption`).
"""

from http import HTTPStatus
from typing import Final

from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.kinds import JsonObject, is_custom
from modules.cloud.applications import kind_of
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.plan import PlannedWrite
from modules.cloud.controllers.view import View

DEFINITION: Final = "CustomResourceDefinition"


class NoScaleError(Exception):
    """A pod's controller has no number of replicas."""


def scale_read(view: View, namespace: str, reference: JsonObject) -> PlannedWrite:
    """Return the read of the scale of a custom object.

    Args:
        view: has the definitions.
        namespace: of the object.
        reference: to the object.

    Raises:
        NoScaleError: its kind has none, or is not served.
    """
    api_version, kind = str(reference.get("apiVersion")), str(reference.get("kind"))
    plural, has_scale = _resource(view, api_version, kind) if is_custom(reference) else _built_in(reference)
    if not has_scale:
        group = api_version.rpartition("/")[0]
        raise NoScaleError(f"{plural}{'.' if group else ''}{group} does not implement the scale subresource")
    call = ApiCall(
        verb="get",
        api_version=api_version,
        plural=plural,
        namespace=namespace,
        name=str(reference.get("name")),
        subresource="scale",
    )
    return PlannedWrite(call, scale_of=str(reference.get("uid")))


def replicas_of(answer: ApiResult, uid: str) -> int | None:
    """Return the replicas that a scale wants; None if the object is gone, or another one has its name.

    Raises:
        NoScaleError: the scale cannot be read.
    """
    if answer.object is None:
        refusal = answer.refusal or {}
        if refusal.get("code") == HTTPStatus.NOT_FOUND:
            return None
        raise NoScaleError(str(refusal.get("message")))
    is_same = answer.object["metadata"].get("uid") == uid
    return int((answer.object.get("spec") or {}).get("replicas") or 0) if is_same else None


def _resource(view: View, api_version: str, kind: str) -> tuple[str, bool]:
    """Return the plural of a custom kind, and whether it has the subresource."""
    group, _, version = api_version.partition("/")
    for definition in view.in_namespace(DEFINITION, ""):
        spec = definition["spec"]
        if spec["group"] != group or spec["names"]["kind"] != kind:
            continue
        served = next((each for each in spec["versions"] if each["name"] == version and each["served"]), None)
        if served is not None:
            return str(spec["names"]["plural"]), "scale" in (served.get("subresources") or {})
    raise _no_matches(api_version, kind)


def _built_in(reference: JsonObject) -> tuple[str, bool]:
    """Return the plural of a kind that the API server has itself; those with a scale are workloads, and in the view."""
    api_version, kind = str(reference.get("apiVersion")), str(reference.get("kind"))
    try:
        found = kind_of(reference)
    except UnknownKindError:
        raise _no_matches(api_version, kind) from None
    if found.api_version != api_version:
        raise _no_matches(api_version, kind)
    return found.plural, False


def _no_matches(api_version: str, kind: str) -> NoScaleError:
    return NoScaleError(f'no matches for kind "{kind}" in version "{api_version}"')
