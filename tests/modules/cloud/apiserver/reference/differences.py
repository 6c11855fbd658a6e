"""What differs on purpose between cloudcore's API server and a kube-apiserver 1.32; docs/cloud-api.md has those that
clients may notice.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from modules.apimachinery.types.quantity import QuantityError, parse_quantity
from modules.cloud.apiserver.field_manager.paths import from_fields_v1
from tests.modules.cloud.apiserver.reference.recordings import Request, differences


class Difference(NamedTuple):
    """A member of an answer that differs, or what a refusal says."""

    request: Request
    path: tuple[Any, ...]
    """`code` alone, of another status, and `message` alone, of a refusal with other words."""
    theirs: Any
    """`...` if it is not there; of another status and of a refusal, what is said."""
    ours: Any

    @property
    def steps(self) -> str:
        """The path, with `*` for indexes."""
        return ".".join("*" if isinstance(step, int) else str(step) for step in self.path)

    @property
    def words(self) -> str:
        """What both refusals say."""
        return f"{self.theirs} {self.ours}" if self.path in (_CODE, _MESSAGE) else ""


_OF_MANAGER = ("manager", "operation", "apiVersion", "subresource")
_CODE = ("code",)
_MESSAGE = ("message",)
_WARNINGS = ("warnings",)
_LONG = re.compile(r'a{20,}(\.\.\.|")?')
_SOURCES = re.compile(r' in scheme \\?"[^"]*"| of type [\w.\[\]*]+')
_CHANGES = re.compile(r"\n(\xa0|[-+ ]|changed: ).*", re.DOTALL)
"""The difference of two specs."""
_NUMBER_OR_TEXT = re.compile(r'intstr\.IntOrString\{Type:([01]), IntVal:(-?\d+), StrVal:("[^"]*")\}')
_GO = r"&?\**(?:\[\])*(?:[a-z]\w*\.)?(?:[A-Z]\w*|map\[[^{(]*|byte|u?int\d*|string)[{(]|\(\*?[\w.]+\)\("
_STRUCTURE = re.compile(
    rf'^(\w+ value: )(?:(?:{_GO}|[{{\[])(?:.*[}})\]](?=: )|.*?\.\.\.|.*[}})\]]$)|"?null"?)(?=: |$)', re.DOTALL
)
"""A value in a cause that is no plain one: in Go's notation there, in JSON here, of which a long one is cut off."""
_OF_FIELDS = re.compile(r"(json patch )?(unknown|duplicate) field |line \d+: key ")
_OF_PATCH = re.compile(r'Invalid value: ".*": (?=strict decoding error: )', re.DOTALL)
"""A patch in a cause, or what it makes of the object."""
_NEWER = "image|clusterTrustBundle|resizePolicy|procMount|volumeAttributesClassName|restartPolicyRules|stopSignal"
_OFF = (("hostUsers",), ("supplementalGroupsPolicy",))
_NETWORK_TYPES = re.compile(
    "gcePersistentDisk|awsElasticBlockStore|iscsi|glusterfs|rbd|cinder|cephfs|flocker|fc|azure|flexVolume|quobyte"
    "|vsphereVolume|photon|portworx|scaleIO|storageos|gitRepo|persistentDisk",
    re.IGNORECASE,
)


def _is_unknown(it: Difference) -> bool:
    if it.request.warnings and it.path not in (_CODE, _MESSAGE, _WARNINGS):
        return True
    return "bogusField" in f"{it.steps} {it.request.changed}" or "f:$" in it.steps or "unknown field" in it.words


def _is_quantity(it: Difference) -> bool:
    try:
        return parse_quantity(str(it.theirs)) == parse_quantity(str(it.ours))
    except QuantityError:
        return False


def _is_empty(value: Any) -> bool:
    return value is not ... and (not value or (isinstance(value, dict) and all(map(_is_empty, value.values()))))


def _is_unreadable(it: Difference) -> bool:
    return it.path == _CODE and it.theirs[0] == 500 and it.ours[0] in (400, 404, 409, 422)


def _is_managed_in_vain(it: Difference) -> bool:
    """Return whether the fields that a manager has there, too, are those of Go's empty objects."""
    if "managedFields" not in it.path[-3:-2] or it.theirs is ...:
        return False
    path = it.path[-1].split("/")
    return (
        path[-1] in ("f:creationTimestamp", "f:lastProbeTime", "f:lastTransitionTime", "f:lastObservedTime")
        or path[-3:] == ["f:ephemeral", "f:volumeClaimTemplate", "f:metadata"]
        or path[-1] == "f:deprecated.daemonset.template.generation"
        or (path == ["f:metadata", "f:annotations"] and "/daemonsets" in it.request.path)
        or (path[:2] == ["f:spec", "f:template"] and "/replicationcontrollers" in it.request.path)
    )


LISTED: dict[str, Callable[[Difference], bool]] = {
    "apiVersion and kind of the items of a list": lambda it: (
        it.theirs is ... and it.path[:1] == ("items",) and it.path[2:] in (("apiVersion",), ("kind",))
    ),
    "unknown fields are stored": _is_unknown,
    "quantities are as they were given": _is_quantity,
    "generations of kinds without them, and of pods": lambda it: (
        it.path[-1:] == ("generation",) or "metadata.generation" in it.words
    ),
    "members without a value are left out": lambda it: it.ours is ... and "managedFields" not in it.path and (
        _is_empty(it.theirs) or it.path[-1:] == ("divisor",)
    ),
    "the user of the recording": lambda it: it.path[:1] == ("spec",) and it.path[1:] in (
        ("username",), ("uid",), ("groups",), ("extra",)
    ),
    "a resourceVersion that is no number, or of a new object": lambda it: (
        it.path == _CODE and "resourceVersion" in f"{it.words} {it.request.changed} {it.request.path}"
    ),
    "what cannot be read is no failure of the server": _is_unreadable,
    "taints and times of controllers that are not here": lambda it: it.steps in (
        "spec.taints", "metadata.annotations"
    ) or it.path[-1:] == ("lastPhaseTransitionTime",),
    "a CustomResourceDefinition is accepted at once": lambda it: (
        it.path[:1] == ("status",) and "customresourcedefinitions" in it.request.path
    ),
    "fields whose features are off there": lambda it: (
        re.search(_NEWER, f"{it.steps} {it.request.changed}") is not None or it.path[-1:] in _OFF
    ),
    "volumes of several types, or of the network's": lambda it: (
        _NETWORK_TYPES.search(f"{it.words} {it.steps}") is not None or "more than 1 volume type" in it.words
    ),
    "texts of columns": lambda it: "columnDefinitions" in it.path and it.path[-1] in ("description", "format"),
    "no protobuf in answers": lambda it: "application/vnd.kubernetes.protobuf" in str(it.theirs),
    "more words of advice": lambda it: it.path == _MESSAGE and str(it.ours).startswith(f"{it.theirs}: "),
    "no addresses of the server": lambda it: it.path[-1:] == ("serverAddressByClientCIDRs",),
    "a list without items": lambda it: it.theirs in (None, []) and it.ours in (None, []),
    "managers of what is in an empty object, and of a template that may be missing": _is_managed_in_vain,
    "managers of objects that are not stored": lambda it: (
        it.path == ("metadata", "managedFields") and it.theirs is not ...
        and it.request.path.endswith(("reviews", "/token"))
    ),
}  # fmt: skip
"""By name; of a difference the first counts."""


def found(request: Request, code: int, answer: Any, warnings: Sequence[str]) -> Iterator[Difference]:
    """Yield the differences of an answer from the recorded one; of warnings, those about fields are compared."""
    if request.warnings is not None:
        given, made = _of_fields(request.warnings), _of_fields(warnings)
        if given != made:
            yield Difference(request, _WARNINGS, given, made)
    theirs, ours = _told(request.answer), _told(answer)
    if request.code != code:
        yield Difference(request, _CODE, (request.code, theirs), (code, ours))
    elif code < 400:
        pair = with_manager_sets(request.answer), with_manager_sets(answer)
        yield from (Difference(request, *each) for each in differences(*pair))
    elif theirs != ours and _causes(request.answer) != (_causes(answer) or ours):
        yield Difference(request, _MESSAGE, theirs, ours)


def _of_fields(warnings: Sequence[str]) -> list[str]:
    return [each for each in warnings if _OF_FIELDS.match(each)]


def with_manager_sets(value: Any) -> Any:
    """Return an answer with what each manager of fields has as a set: the paths are members of an object."""
    if isinstance(value, list):
        return [with_manager_sets(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_manager_sets(each) for name, each in value.items()}
    if isinstance(entries := made.get("managedFields"), list):
        made["managedFields"] = {
            " ".join(str(entry.get(name, "")) for name in _OF_MANAGER): dict.fromkeys(
                map("/".join, from_fields_v1(entry.get("fieldsV1", {}))), True
            )
            for entry in entries
        }
    return made


def _told(answer: Any) -> Any:
    """Return what a refusal says; of a long value its beginning, and no names of Go's types."""
    if not isinstance(answer, dict) or answer.get("status") != "Failure":
        return str(answer)[:100]
    return _plain(f"{answer.get('reason')}: {answer.get('message')}")


def _number_or_text(text: str) -> str:
    return _NUMBER_OR_TEXT.sub(lambda found: found[3] if found[1] == "1" else found[2], text)


def _plain(text: str) -> str:
    return _CHANGES.sub("", _SOURCES.sub("", _LONG.sub("LONG", text)))


def _causes(answer: Any) -> frozenset[tuple[str, ...]]:
    """Return the causes of a refusal: one that is told twice counts once."""
    details = answer.get("details") if isinstance(answer, dict) else None
    causes = (details or {}).get("causes") or ()
    return frozenset((str(one.get("field")), str(one.get("reason")), _cause(str(one.get("message")))) for one in causes)


def _cause(message: str) -> str:
    message = _OF_PATCH.sub("Invalid value: STRUCTURE: ", message)
    return _plain(_STRUCTURE.sub(r"\1STRUCTURE", _number_or_text(message)))
