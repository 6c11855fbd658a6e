"""The environment of a container (kubelet's makeEnvironmentVariables).

`envFrom` comes first, then `env` in the order of the pod; each value may refer to earlier variables, and a later
variable replaces an earlier one of its name. Variables of Services add missing names. The caller fetches configmaps,
secrets and the variables of Services.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from edged.errors import ConfigError, MissingSourceError, TooLargeError
from edged.pods.config.downward import DownwardView, field_value, resource_value
from edged.pods.config.expansion import LARGEST_START, LARGEST_TEXT, expand, size_of
from modules.apimachinery.types import ConfigMap, Container, EnvFromSource, EnvVar, EnvVarSource, Pod, Secret

_NO_LINKS: Final[Mapping[str, str]] = {}


class EnvSources(Protocol):
    """The configmaps and secrets of the pod's namespace, already fetched."""

    def config_map(self, name: str) -> ConfigMap | None:
        """Return the configmap of that name, None when it does not exist."""

    def secret(self, name: str) -> Secret | None:
        """Return the secret of that name, None when it does not exist."""


def environment(
    pod: Pod, container: Container, sources: EnvSources, view: DownwardView, links: Mapping[str, str] = _NO_LINKS
) -> dict[str, str]:
    """Return names and values in order. No error shows a value.

    Args:
        pod: the pod.
        container: of the pod.
        sources: of `envFrom` and `valueFrom`.
        view: of fields and resources.
        links: variables of Services; the container's own have precedence.

    Raises:
        MissingSourceError: a configmap, a secret or one of its keys does not exist.
        FieldReferenceError: a reference names no field or resource.
        TooLargeError: a variable, or all together, exceed the limits of Linux.
        ConfigError: a value has a zero byte.
    """
    variables: dict[str, str] = {}
    known = ChainMap(variables, dict(links))
    room = _Room()
    for source in container.env_from:
        for key, value in _all_keys(source, sources):
            name = source.prefix + key
            room.charge(name, value)
            if is_variable_name(name):
                variables[name] = value
    for variable in container.env:
        own = _value(pod, container, variable, known, sources, view)
        if own is not None:
            room.charge(variable.name, own)
            variables[variable.name] = own
    for name, value in links.items():
        if name not in variables:
            room.charge(name, value)
            variables[name] = value
    for name, value in variables.items():
        if "\0" in value:
            raise ConfigError("cannot set the variable", name, "its value holds a zero byte")
    return variables


class _Room:
    """The bytes that remain for a container's variables. A variable that a later one replaces counts too."""

    def __init__(self) -> None:
        self._left = LARGEST_START

    def charge(self, name: str, value: str) -> None:
        size = size_of(name) + 1 + size_of(value)
        if size > LARGEST_TEXT:
            raise TooLargeError("set the variable", name, f"name and value have more than {LARGEST_TEXT} bytes")
        self._left -= size + 1
        if self._left < 0:
            raise TooLargeError("set the variable", name, f"all variables have more than {LARGEST_START} bytes")


def impossible_names(container: Container, sources: EnvSources) -> dict[str, tuple[str, ...]]:
    """Return the keys that `environment` leaves out because they are not valid names of variables, by source
    (`configMap settings`).
    """
    skipped = {}
    for source in container.env_from:
        keys = tuple(key for key, _ in _all_keys(source, sources) if not is_variable_name(source.prefix + key))
        if keys:
            skipped[_name_of(source)] = keys
    return skipped


def _name_of(source: EnvFromSource) -> str:
    if source.config_map_ref is not None:
        return f"configMap {source.config_map_ref.name}"
    return f"secret {source.secret_ref.name}" if source.secret_ref is not None else ""


def is_variable_name(name: str) -> bool:
    """Return whether a key can be a variable's name: printable ASCII without `=` (Kubernetes since 1.30)."""
    return bool(name) and all(" " <= character <= "~" and character != "=" for character in name)


def _all_keys(source: EnvFromSource, sources: EnvSources) -> Iterator[tuple[str, str]]:
    if source.config_map_ref is not None:
        ref = source.config_map_ref
        config_map = sources.config_map(ref.name)
        _require("configmap", ref.name, found=config_map is not None, optional=ref.optional)
        yield from sorted(config_map.data.items() if config_map else ())
    if source.secret_ref is not None:
        secret_ref = source.secret_ref
        secret = sources.secret(secret_ref.name)
        _require("secret", secret_ref.name, found=secret is not None, optional=secret_ref.optional)
        yield from ((key, _text(value)) for key, value in sorted(_data(secret).items()))


def _value(
    pod: Pod,
    container: Container,
    variable: EnvVar,
    known: Mapping[str, str],
    sources: EnvSources,
    view: DownwardView,
) -> str | None:
    """Return the value of one variable; None when its source is optional and missing."""
    if variable.value or variable.value_from is None:
        return _expanded(variable, known)
    source = variable.value_from
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, view)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, view)
    return _value_of_key(source, sources)


def _expanded(variable: EnvVar, known: Mapping[str, str]) -> str:
    """Expand the variable's references. TooLargeError names only the variable, because its value may be a secret."""
    try:
        return expand(variable.value, known)
    except TooLargeError as error:
        raise TooLargeError("set the variable", variable.name, error.hint) from None


def _value_of_key(source: EnvVarSource, sources: EnvSources) -> str | None:
    if source.config_map_key_ref is not None:
        ref = source.config_map_key_ref
        config_map = sources.config_map(ref.name)
        _require("configmap", ref.name, found=config_map is not None, optional=ref.optional)
        value = config_map.data.get(ref.key) if config_map else None
        _require_key("configmap", ref.name, ref.key, found=value is not None, optional=ref.optional)
        return value
    if source.secret_key_ref is not None:
        secret_ref = source.secret_key_ref
        secret = sources.secret(secret_ref.name)
        _require("secret", secret_ref.name, found=secret is not None, optional=secret_ref.optional)
        raw = _data(secret).get(secret_ref.key)
        _require_key("secret", secret_ref.name, secret_ref.key, found=raw is not None, optional=secret_ref.optional)
        return None if raw is None else _text(raw)
    return ""


def _data(secret: Secret | None) -> dict[str, bytes]:
    return secret.data if secret is not None else {}


def _text(value: bytes) -> str:
    """Decode a value. Bytes that are not UTF-8 survive until the runtime gets them (see `container_config`)."""
    return value.decode("utf-8", "surrogateescape")


def _require(kind: str, name: str, *, found: bool, optional: bool | None) -> None:
    if not found and not optional:
        raise MissingSourceError(f"{kind} not found", name)


def _require_key(kind: str, name: str, key: str, *, found: bool, optional: bool | None) -> None:
    if not found and not optional:
        raise MissingSourceError(f"key not found in {kind}", f"{name}: {key}")
