"""From a file to a static pod: pure, but for the text that it is given.

What a kubelet fills in is filled in (config.applyDefaults): the node's name behind the pod's; a uid made from node,
file and content, so that a changed file is another pod and an unchanged one the same after any restart; annotations
that say where it came from; and a toleration of everything, because nobody has scheduled it.
"""

import hashlib
import re
from typing import Any

import msgspec

from edged.admission.validation import invalid
from edged.api import Pod, from_value
from edged.api.codec import DecodeError
from edged.pods.critical import CONFIG_MIRROR, CONFIG_SOURCE
from edged.reading import check_pod
from edged.static_pods.errors import ManifestError

CONFIG_HASH = "kubernetes.io/config.hash"
LARGEST = 1024 * 1024
"""Bytes of a file; an object of the API cannot be larger either."""

MOST_VALUES = 20_000
"""Strings, numbers, lists and mappings in a file; a large pod has a thousand."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_UNFORESEEN = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What PyYAML lets through of its own: a date without a month 0, `!!bool maybe`, `!!timestamp never`."""
_LISTS = ("containers", "volumes", "tolerations")
_ATTEMPTED = "cannot make a static pod of"


def static_pod(text: bytes, file: str, node: str) -> dict[str, Any]:
    """The pod that a file asks for, as an object of the API (YAML and JSON alike).

    Args:
        text: the file's content.
        file: its path; part of the uid.
        node: this node's name.

    Raises:
        ManifestError: it is no pod, or one that cannot be a static pod.
    """
    pod = _read(text, file)
    metadata = {**pod["metadata"]}
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "default")
    _check(pod, name, namespace, file)
    uid = metadata.get("uid") or hashlib.md5(f"{node}\0{file}\0".encode() + text, usedforsecurity=False).hexdigest()
    annotations = {**(metadata.get("annotations") or {}), CONFIG_SOURCE: "file", CONFIG_HASH: str(uid)}
    annotations.pop(CONFIG_MIRROR, None)  # of a file that was made of `kubectl get pod -o yaml`
    metadata |= {"name": f"{name}-{node}", "namespace": namespace, "uid": str(uid), "annotations": annotations}
    spec = {"restartPolicy": "Always", "enableServiceLinks": True, **pod["spec"], "nodeName": node}
    spec["tolerations"] = [*(spec.get("tolerations") or []), {"operator": "Exists", "effect": "NoExecute"}]
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    try:
        read = from_value(Pod, whole)
        check_pod(read)
        msgspec.json.encode(whole)  # as which it goes over the bus; in YAML `on` is a truth, and may be a key
    except (DecodeError, RecursionError, TypeError) as error:
        raise ManifestError(_ATTEMPTED, file, str(error)) from error
    if (verdict := invalid(read)) is not None:
        raise ManifestError(_ATTEMPTED, file, verdict.message)
    return whole


def is_static(pod: Pod) -> bool:
    """Whether this machine itself asked for it."""
    return CONFIG_SOURCE in pod.metadata.annotations and not is_mirror(pod)


def is_mirror(pod: Pod) -> bool:
    """Whether it only stands for a static pod in the cloud, and is not to be run."""
    return CONFIG_MIRROR in pod.metadata.annotations


def _read(text: bytes, file: str) -> dict[str, Any]:
    """YAML is read only here, and only on nodes that have such files."""
    if len(text) > LARGEST:
        raise ManifestError(_ATTEMPTED, file, f"a pod has at most {LARGEST} bytes")
    from beehive.yaml_reader import YamlError, check  # noqa: PLC0415 - its parser is 3 MB

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
    """The pod with the parts that are looked into here as what they must be; what is missing is empty."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations") or {}, dict):
        raise ManifestError(_ATTEMPTED, file, "`metadata` and `metadata.annotations` must be mappings")
    if not isinstance(spec, dict) or not all(isinstance(spec.get(key) or [], list) for key in _LISTS):
        raise ManifestError(_ATTEMPTED, file, f"`spec` must be a mapping, and {', '.join(_LISTS)} in it lists")
    return {**pod, "metadata": metadata, "spec": spec}


def _is_small(value: Any) -> bool:
    """Whether so many values are in it: YAML's aliases make a few lines into gigabytes, or into a value in itself."""
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
