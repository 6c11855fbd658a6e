"""Generates `fields.json`: the names and types of the fields of the served kinds, as Kubernetes' OpenAPI has them.

`python -m modules.cloud.apiserver.fields.generate` writes the file from the models of the PyPI package `kubernetes`
(32.0.1 is Kubernetes 1.32); with `--check` it exits with status 1 unless the file is up to date, and with 0 where the
package is not installed.
"""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from modules.apimachinery.kinds import KINDS

TARGET = Path(__file__).with_name("fields.json")
VERSION = "32.0.1"
"""Version of the package that is the file's source."""

_ROOTS = {
    "Event": "CoreV1Event",
    "ResourceClaim": "V1beta1ResourceClaim",
    "ResourceSlice": "V1beta1ResourceSlice",
    "DeviceClass": "V1beta1DeviceClass",
}
_LATER = {
    "V1Container": {"restartPolicyRules": "[V1ContainerRestartRule"},
    "V1ContainerRestartRule": {"action": "str", "exitCodes": "V1ContainerRestartRuleOnExitCodes"},
    "V1ContainerRestartRuleOnExitCodes": {"operator": "str", "values": "[int"},
    "V1Lifecycle": {"stopSignal": "str"},
    "V1PodCondition": {"observedGeneration": "int"},
    "V1PodStatus": {"observedGeneration": "int"},
}
"""Fields of later versions of Kubernetes that edged knows."""
_LIST = re.compile(r"list\[(.*)\]")
_MAP = re.compile(r"dict\(str, (.*)\)")


def text(models: Any) -> str:
    """Return the whole file."""
    found: dict[str, dict[str, str]] = {}
    waiting = [_ROOTS.get(kind.name, f"V1{kind.name}") for kind in KINDS]
    while waiting:
        name = waiting.pop()
        model = getattr(models, name, None)
        if name in found or model is None:
            continue
        found[name] = {model.attribute_map[field]: _type(kind) for field, kind in model.openapi_types.items()}
        waiting += [kind.lstrip("[{") for kind in found[name].values()]
    for name, fields in _LATER.items():
        found[name] = found.get(name, {}) | fields
    kinds = {kind.name: _ROOTS.get(kind.name, f"V1{kind.name}") for kind in KINDS}
    lines = [f"{json.dumps(name)}: {json.dumps(fields, sort_keys=True)}" for name, fields in sorted(found.items())]
    return "\n".join(["{", f'"kinds": {json.dumps(kinds)},', '"types": {', ",\n".join(lines), "}", "}", ""])


def main() -> int:
    """Write or check the file."""
    is_check = "--check" in sys.argv[1:]
    try:
        package = importlib.import_module("kubernetes")
        models = importlib.import_module("kubernetes.client.models")
    except ImportError:
        sys.stderr.write(f"fields.json: `pip install kubernetes=={VERSION}` makes it and checks it\n")
        return 0 if is_check else 1
    if is_check and package.__version__ != VERSION:
        sys.stderr.write(f"fields.json: made from kubernetes {VERSION}, and {package.__version__} is installed\n")
        return 0
    wanted = text(models)
    if is_check:
        return 0 if TARGET.read_text() == wanted else 1
    TARGET.write_text(wanted)
    return 0


def _type(kind: str) -> str:
    """Return a field's type: a model or a plain type, after `[` for a list and `{` for a map."""
    for pattern, mark in ((_LIST, "["), (_MAP, "{")):
        if match := pattern.fullmatch(kind):
            return mark + _type(match[1])
    return kind


if __name__ == "__main__":
    sys.exit(main())
