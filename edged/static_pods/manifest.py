"""Decodes the manifest of a static pod. Pure."""

import hashlib
import re
from typing import Any

import msgspec

from beehive.patterns import pattern
from edged.admission.validation import validate_pod
from edged.errors import ManifestError
from edged.pods.decode import check_pod
from modules.apimachinery.pods.static import CONFIG_MIRROR, CONFIG_SOURCE
from modules.apimachinery.types import Pod, from_value
from modules.apimachinery.types.codec import DecodeError

CONFIG_HASH = "kubernetes.io/config.hash"
LARGEST = 1024 * 1024
"""Largest file, in bytes; an object of the API cannot be larger either."""

MOST_VALUES = 20_000
"""Largest number of strings, numbers, lists and mappings in a file; a large pod has a thousand."""

_NAME = pattern(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_UNFORESEEN = (ValueError, TypeError, AttributeError, LookupError)
"""Errors that PyYAML lets through: a date without a month 0, `!!bool maybe`, `!!timestamp never`."""
_LISTS = ("containers", "volumes", "tolerations")
_ATTEMPTED = "cannot make a static pod of"


def static_pod(text: bytes, file: str, node: str) -> dict[str, Any]:
    """Return the pod of a file, as an object of the API (YAML and JSON alike).

    As in a kubelet (config.applyDefaults), the node's name is appended to the pod's; the uid is made from node, file
    and content, so a changed file is another pod and an unchanged one the same after any restart; annotations name the
    source; and the pod tolerates every taint, because it was not scheduled.

    Args:
        text: the file's content.
        file: its path; part of the uid.
        node: this node's name.

    Raises:
        ManifestError: the content is not a pod, or not a possible static pod.
    """
    pod = _read(text, file)
    metadata = {**pod["metadata"]}
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "default")
    _check(pod, name, namespace, file)
    uid = metadata.get("uid") or _hash(text, file, node)
    annotations = {**(metadata.get("annotations") or {}), CONFIG_SOURCE: "file", CONFIG_HASH: str(uid)}
    annotations.pop(CONFIG_MIRROR, None)  # present in the output of `kubectl get pod -o yaml`
    metadata |= {"name": f"{name}-{node}", "namespace": namespace, "uid": str(uid), "annotations": annotations}
    spec = {"restartPolicy": "Always", "enableServiceLinks": True, **pod["spec"], "nodeName": node}
    spec["tolerations"] = [*(spec.get("tolerations") or []), {"operator": "Exists", "effect": "NoExecute"}]
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    try:
        read = from_value(Pod, whole)
        check_pod(read)
        msgspec.json.encode(whole)  # the bus's form; in YAML `on` is a boolean, and may be a key
    except (DecodeError, TypeError) as error:
        raise ManifestError(_ATTEMPTED, file, str(error)) from error
    if (invalid := validate_pod(read)) is not None:
        raise ManifestError(_ATTEMPTED, file, invalid.message)
    return whole


def _hash(text: bytes, file: str, node: str) -> str:
    """Return the uid of a file, whose name need not be Unicode."""
    place = f"{node}\0{file}\0".encode(errors="surrogateescape")
    return hashlib.md5(place + text, usedforsecurity=False).hexdigest()


def _read(text: bytes, file: str) -> dict[str, Any]:
    """Parse the file. The YAML parser is imported only here, on nodes with static pods."""
    if len(text) > LARGEST:
        raise ManifestError(_ATTEMPTED, file, f"a pod has at most {LARGEST} bytes")
    from modules.apimachinery.yaml_reader import YamlError, check  # noqa: PLC0415 - its parser is 3 MB

    try:
        check(text.decode())
        pod = msgspec.yaml.decode(text)
    except YamlError as error:
        raise ManifestError(_ATTEMPTED, file, f"it is neither YAML nor JSON: line {error.line}: {error.why}") from error
    except (msgspec.DecodeError, *_UNFORESEEN) as error:
        raise ManifestError(_ATTEMPTED, file, f"it is neither YAML nor JSON: {error}") from error
    if not isinstance(pod, dict) or pod.get("kind") != "Pod":
        raise ManifestError(_ATTEMPTED, file, "one object of `kind: Pod` is wanted in each file")
    if not _is_small(pod):
        raise ManifestError(_ATTEMPTED, file, f"written out without aliases it has more than {MOST_VALUES} values")
    return _typed(pod, file)


def _typed(pod: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the pod after a check of the types used here; missing parts become empty."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations") or {}, dict):
        raise ManifestError(_ATTEMPTED, file, "`metadata` and `metadata.annotations` must be mappings")
    if not isinstance(spec, dict) or not all(isinstance(spec.get(key) or [], list) for key in _LISTS):
        raise ManifestError(_ATTEMPTED, file, f"`spec` must be a mapping, and {', '.join(_LISTS)} in it lists")
    return {**pod, "metadata": metadata, "spec": spec}


def _is_small(value: Any) -> bool:
    """Return whether the number of values is limited: YAML's aliases turn a few lines into gigabytes, or into a value
    inside itself.
    """
    left, waiting = MOST_VALUES, [value]
    while waiting and left > 0:
        one = waiting.pop()
        left -= 1
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return not waiting


def _check(pod: dict[str, Any], name: str, namespace: str, file: str) -> None:
    if not pod["spec"].get("containers"):
        raise ManifestError(_ATTEMPTED, file, "its `spec.containers` are missing")
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(namespace):
        raise ManifestError(_ATTEMPTED, file, "`metadata.name` must be lower case letters, digits, '-' and '.'")
    for volume in pod["spec"].get("volumes") or []:
        if isinstance(volume, dict) and {"configMap", "secret", "projected", "persistentVolumeClaim"} & volume.keys():
            hint = f"volume {volume.get('name')!r} is kept in the cloud; a static pod may need nothing from there"
            raise ManifestError(_ATTEMPTED, file, hint)
