"""Generates `fields.json`: the fields of the kinds in requests, their types, and how each is merged.

`python -m modules.cloud.apiserver.fields.generate` writes the file from two PyPI packages of Kubernetes 1.32: the types
from the models of `kubernetes`, which lack the tags of merges, and those (`x-kubernetes-list-type`,
`x-kubernetes-patch-strategy` and their likes) from the OpenAPI in `kubernetes-validate`. With `--check` it exits with
status 1 unless the file is up to date, and with 0 where a package is not installed.
"""

import importlib
import json
import re
import sys
from importlib import resources
from pathlib import Path
from typing import Any, Final

from beehive.nesting import read_json
from modules.apimachinery.kinds import KINDS

TARGET = Path(__file__).with_name("fields.json")
VERSIONS: Final = {"kubernetes": "32.0.1", "kubernetes_validate": "1.32.0"}
"""Versions of the packages that are the file's source."""
_DEFINITIONS: Final = f"kubernetes-json-schema/v{VERSIONS['kubernetes_validate']}-local/_definitions.json"

_ROOTS = {
    "Event": "CoreV1Event",
    "HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "ResourceClaim": "V1beta1ResourceClaim",
    "ResourceSlice": "V1beta1ResourceSlice",
    "DeviceClass": "V1beta1DeviceClass",
}
_OF_REQUESTS: Final = {
    "Binding": "V1Binding",
    "DeleteOptions": "V1DeleteOptions",
    "HorizontalPodAutoscaler.v1": "V1HorizontalPodAutoscaler",
    "Eviction": "V1Eviction",
    "LocalSubjectAccessReview": "V1LocalSubjectAccessReview",
    "Scale": "V1Scale",
    "SelfSubjectAccessReview": "V1SelfSubjectAccessReview",
    "SelfSubjectReview": "V1SelfSubjectReview",
    "SelfSubjectRulesReview": "V1SelfSubjectRulesReview",
    "SubjectAccessReview": "V1SubjectAccessReview",
    "TokenRequest": "AuthenticationV1TokenRequest",
    "TokenReview": "V1TokenReview",
}
"""The kinds of bodies that are not stored, or in another version."""
_LATER = {
    "V1Container": {"restartPolicyRules": "[V1ContainerRestartRule"},
    "V1ContainerRestartRule": {"action": "str", "exitCodes": "V1ContainerRestartRuleOnExitCodes"},
    "V1ContainerRestartRuleOnExitCodes": {"operator": "str", "values": "[int"},
    "V1Lifecycle": {"stopSignal": "str"},
    "V1PodCondition": {"observedGeneration": "int"},
    "V1PodStatus": {"observedGeneration": "int"},
}
"""Fields of later versions of Kubernetes that edged knows."""
_TAG: Final = "x-kubernetes-"
_MERGES: Final = ("list-map-keys", "list-type", "map-type", "patch-merge-key", "patch-strategy")
"""The tags that say how a field is merged, without their prefix."""
_LIST = re.compile(r"list\[(.*)\]")
_MAP = re.compile(r"dict\(str, (.*)\)")


def text() -> str:
    """Return the whole file."""
    models = importlib.import_module("kubernetes.client.models")
    schemas = read_json((resources.files("kubernetes_validate") / _DEFINITIONS).read_bytes())
    kinds = {kind.name: _ROOTS.get(kind.name, f"V1{kind.name}") for kind in KINDS} | _OF_REQUESTS
    types = _types(models, [*kinds.values()])
    defined = _defined(types, schemas["$defs"])
    merges = {name: found for name, of in sorted(defined.items()) if (found := _merges(of))}
    atomic = sorted(name for name, of in defined.items() if of.get(f"{_TAG}map-type") == "atomic")
    parts = (
        f'"kinds": {json.dumps(kinds)}',
        f'"types": {{\n{_lines(types)}\n}}',
        f'"merges": {{\n{_lines(merges)}\n}}',
        f'"atomic": {json.dumps(atomic)}',
    )
    return "\n".join(["{", ",\n".join(parts), "}", ""])


def _types(models: Any, waiting: list[str]) -> dict[str, dict[str, str]]:
    """Return the types that some consist of, each with its fields and their types."""
    found: dict[str, dict[str, str]] = {}
    while waiting:
        name = waiting.pop()
        model = getattr(models, name, None)
        if name in found or model is None:
            continue
        found[name] = {model.attribute_map[field]: _type(kind) for field, kind in model.openapi_types.items()}
        waiting += [kind.lstrip("[{") for kind in found[name].values()]
    for name, fields in _LATER.items():
        found[name] = found.get(name, {}) | fields
    return found


def _defined(types: dict[str, dict[str, str]], definitions: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of types: of the kinds by their group and version, of the others by the fields of those."""
    groups = {
        (each["kind"], each["group"], each["version"]): name
        for name, of in definitions.items() for each in of.get(f"{_TAG}group-version-kind", ())
    }  # fmt: skip
    waiting = []
    for kind in KINDS:
        of = _ROOTS.get(kind.name, f"V1{kind.name}")
        version = of.removesuffix(kind.name).lower().removeprefix("core")
        waiting.append((of, groups[kind.name, kind.api_group, version]))
    found: dict[str, dict[str, Any]] = {}
    while waiting:
        name, definition = waiting.pop()
        if name in found:
            continue
        found[name] = definitions[definition]
        for field, of in types[name].items():
            member = found[name].get("properties", {}).get(field)
            if of.lstrip("[{") in types and member is not None:
                waiting.append((of.lstrip("[{"), _referred(member)))
    return found


def _referred(schema: dict[str, Any]) -> str:
    """Return the name of the definition that a schema, or that of its elements, refers to."""
    while "$ref" not in schema:
        schema = schema.get("items") or schema["additionalProperties"]
    return str(schema["$ref"]).rpartition("/")[2]


def _merges(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tags of a definition's fields, by field."""
    fields = {
        field: {name: of[_TAG + name] for name in _MERGES if _TAG + name in of}
        for field, of in definition.get("properties", {}).items()
    }
    return {field: tags for field, tags in fields.items() if tags}


def _lines(members: dict[str, Any]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(of, sort_keys=True)}" for name, of in sorted(members.items()))


def missing() -> str:
    """Return which package is not installed, or in another version; "" if all are there."""
    for name, version in VERSIONS.items():
        try:
            found = importlib.import_module(name).__version__
        except ImportError:
            return f"the PyPI package {name} is not installed"
        if found != version:
            return f"the PyPI package {name} is not {version}"
    return ""


def main() -> int:
    """Write or check the file."""
    is_check = "--check" in sys.argv[1:]
    if why := missing():
        wanted = " ".join(f"{name}=={version}" for name, version in VERSIONS.items())
        sys.stderr.write(f"fields.json: {why}: `pip install {wanted}` makes it and checks it\n")
        return 0 if is_check else 1
    found = text()
    if is_check:
        return 0 if TARGET.read_text() == found else 1
    TARGET.write_text(found)
    return 0


def _type(kind: str) -> str:
    """Return a field's type: a model or a plain type, after `[` for a list and `{` for a map."""
    for pattern, mark in ((_LIST, "["), (_MAP, "{")):
        if match := pattern.fullmatch(kind):
            return mark + _type(match[1])
    return kind


if __name__ == "__main__":
    sys.exit(main())
