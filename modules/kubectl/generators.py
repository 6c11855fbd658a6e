"""Makes the objects of `create KIND NAME`: configmaps, secrets, pods, workloads, roles, bindings and others."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modules.cli.errors import KubectlError
from modules.kubectl.absent_kinds import advice_on
from modules.kubectl.rbac_generators import KINDS, rbac_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modules.apimachinery.printing.fields import JsonObject
    from modules.kubectl.discovery import RestMapper

_MOST_BYTES: Final = 1024 * 1024
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_LINE: Final = re.compile(r"[A-Za-z_.-][\w.-]*", re.ASCII)
_REGISTRY: Final = "https://index.docker.io/v1/"
_MADE: Final = "`create --help` has the kinds that are made from options; `create -f` makes all"

_SHORT: Final = {
    "cm": "configmap",
    "ns": "namespace",
    "po": "pod",
    "deploy": "deployment",
    "cj": "cronjob",
    "sa": "serviceaccount",
}

_PLAIN: Final = {"namespace": "Namespace", "serviceaccount": "ServiceAccount"}
"""Kinds whose objects have nothing but a name."""


def workload(kind: str, name: str, command: list[str], chosen: Any) -> JsonObject:
    """Return a workload.

    Args:
        kind: deployment, job or cronjob.
        name: its name.
        command: of its container.
        chosen: the options `image`, `replicas`, `port`, `schedule`, `restart` and `made_from`.

    Raises:
        KubectlError: an option is missing or wrong.
    """
    if kind == "job" and chosen.made_from:
        return _object("batch/v1", "Job", name, {})
    if not chosen.image:
        raise KubectlError(f"--image is needed: `create {kind} NAME --image=IMAGE [-- ARGUMENT…]`")
    if kind == "deployment":
        return _deployment(name, command, chosen)
    container = {"name": name, "image": chosen.image, **({"command": command} if command else {})}
    restart = chosen.restart or ("Never" if kind == "job" else "OnFailure")
    spec = {"template": {"spec": {"containers": [container], "restartPolicy": restart}}}
    if kind == "job":
        return _object("batch/v1", "Job", name, spec)
    if not chosen.schedule:
        raise KubectlError("--schedule is needed: `create cronjob NAME --image=IMAGE --schedule='*/5 * * * *'`")
    given = {"schedule": chosen.schedule, "jobTemplate": {"metadata": {"name": name}, "spec": spec}}
    return _object("batch/v1", "CronJob", name, given)


def _deployment(name: str, command: list[str], chosen: Any) -> JsonObject:
    container: JsonObject = {"name": _container_name(chosen.image), "image": chosen.image}
    if command:
        container["command"] = command
    if chosen.port:
        container["ports"] = [{"containerPort": _number(chosen.port, "--port")}]
    labels = {"app": name}
    spec = {
        "replicas": _number(chosen.replicas, "--replicas"),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    made = _object("apps/v1", "Deployment", name, spec)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def _object(api_version: str, kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _container_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _number(text: str, option: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise KubectlError(f"{option} is a number, not {text[:20]!r}")
    return int(text)


def generated(chosen: Any, discovery: RestMapper) -> JsonObject:
    """Return the object that the words and options describe.

    Args:
        chosen: the words and options.
        discovery: finds the API groups of the resources of roles.

    Raises:
        KubectlError: an unknown kind, a missing name, an unreadable file, or a wrong key.
    """
    kind, *names = chosen.words
    kind = _SHORT.get(kind, kind)
    if kind == "configmap":
        return _config_map(_name(names, kind), chosen)
    if kind in _PLAIN:
        return {"apiVersion": "v1", "kind": _PLAIN[kind], "metadata": {"name": _name(names, kind)}}
    if kind == "secret":
        return _secret(names, chosen)
    if kind == "pod":
        return _pod(names, chosen)
    if kind in ("deployment", "job", "cronjob"):
        return workload(kind, _name(names[:1], kind), names[1:], chosen)
    if kind in KINDS:
        return rbac_object(kind, _name(names, kind), chosen, discovery)
    raise KubectlError(f"`create {kind}` is not here: {advice_on(kind) or _MADE}")


def _name(names: list[str], kind: str) -> str:
    if len(names) != 1:
        raise KubectlError(f"exactly one NAME is required, got {len(names)}: `create {kind} NAME`")
    return names[0]


def _config_map(name: str, chosen: Any) -> JsonObject:
    texts: dict[str, str] = {}
    data: dict[str, str] = {}
    for key, value in _entries(chosen, f'ConfigMap "{name}"').items():
        try:
            texts[key] = value.decode()
        except UnicodeDecodeError:
            data[key] = b64encode(value).decode()
    fields = {field: members for field, members in (("data", texts), ("binaryData", data)) if members}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def _secret(words: list[str], chosen: Any) -> JsonObject:
    kind, *names = words or [""]
    name = _name(names, f"secret {kind or 'generic'}") if kind in ("generic", "tls", "docker-registry") else ""
    if kind == "generic":
        entries, type_ = _entries(chosen, f'Secret "{name}"'), chosen.type
    elif kind == "tls":
        if not (chosen.cert and chosen.key):
            raise KubectlError("key and cert must be specified: --cert FILE and --key FILE")
        entries = {"tls.crt": _contents(Path(chosen.cert)), "tls.key": _contents(Path(chosen.key))}
        type_ = "kubernetes.io/tls"
    elif kind == "docker-registry":
        entries, type_ = {".dockerconfigjson": _registry(chosen)}, "kubernetes.io/dockerconfigjson"
    else:
        raise KubectlError("a kind of secret is missing: `create secret generic|tls|docker-registry NAME`")
    data = {"data": {key: b64encode(value).decode() for key, value in entries.items()}} if entries else {}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_ or "Opaque", **data}


def _pod(words: list[str], chosen: Any) -> JsonObject:
    """Return the pod that `kubectl run NAME --image=IMAGE` makes; the words behind the name are arguments."""
    name = _name(words[:1], "pod")
    if not chosen.image:
        raise KubectlError("--image is needed: `create pod NAME --image=IMAGE [-- ARGUMENT…]`")
    container: JsonObject = {"name": name, "image": chosen.image}
    if words[1:]:
        container["command" if chosen.as_command else "args"] = words[1:]
    if chosen.env:
        container["env"] = [{"name": key, "value": value} for key, value in _pairs(chosen.env, "--env")]
    if chosen.port:
        if not (chosen.port.isascii() and chosen.port.isdecimal() and 0 < int(chosen.port[:6]) < 65536):
            raise KubectlError(f"--port is a number from 1 to 65535, not {chosen.port[:20]!r}")
        container["ports"] = [{"containerPort": int(chosen.port)}]
    labels = dict(_pairs(chosen.labels.split(","), "--labels")) if chosen.labels else {"run": name}
    spec = {"containers": [container], "restartPolicy": chosen.restart or "Always"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _pairs(texts: list[str], option: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise KubectlError(f"{option} wants KEY=VALUE")
        yield key, value


def _registry(chosen: Any) -> bytes:
    user, password = chosen.docker_username, chosen.docker_password
    if not (user and password):
        raise KubectlError("--docker-username and --docker-password are needed")
    entry = {"username": user, "password": password, "email": chosen.docker_email}
    entry = {key: value for key, value in entry.items() if value}
    entry["auth"] = b64encode(f"{user}:{password}".encode()).decode()
    return msgspec.json.encode({"auths": {chosen.docker_server or _REGISTRY: entry}})


def _entries(chosen: Any, owner: str) -> dict[str, bytes]:
    """Return the entries of all sources; each key may be there once."""
    found: dict[str, bytes] = {}
    for key, value in _sources(chosen):
        if not _KEY.fullmatch(key) or key in (".", ".."):
            raise KubectlError(f"{key!r} is not a valid key: it may have letters, digits, '-', '_' and '.'")
        if key in found:
            raise KubectlError(f'cannot add key "{key}", another key by that name already exists in Data for {owner}')
        found[key] = value
    return found


def _sources(chosen: Any) -> Iterator[tuple[str, bytes]]:
    for text in chosen.from_literal:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise KubectlError("invalid literal source, expected key=value: --from-literal=KEY=VALUE")
        yield key, _unquoted(value).encode()
    for text in chosen.from_file:
        key, equals, name = text.partition("=")
        path = Path(name if equals else text)
        if path.is_dir():
            if equals:
                raise KubectlError(f"cannot give a key name for a directory path: {text}")
            yield from ((file.name, _contents(file)) for file in sorted(path.iterdir()) if file.is_file())
        else:
            yield (key if equals else path.name), _contents(path)
    for text in chosen.from_env_file:
        yield from _of_lines(_contents(Path(text)), text)


def _of_lines(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    try:
        lines = data.decode().removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise KubectlError(f"env file {name} contains invalid utf8 bytes") from error
    for number, line in enumerate(lines, 1):
        key, equals, value = line.lstrip().partition("=")
        if not key or key.startswith("#"):
            continue
        if not equals or not _LINE.fullmatch(key):
            raise KubectlError(f"{name}:{number}: a line KEY=VALUE is wanted")
        yield key, value.encode()


def _contents(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise KubectlError(f"error reading {path}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise KubectlError(f"{path} is longer than 1 MiB, the most that an object may have")
    return data


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'" else value
