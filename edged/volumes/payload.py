"""The files of configMap, secret, downwardAPI and projected volumes."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Protocol

from msgspec import Struct

from edged.errors import MissingContentError, VolumeError
from edged.pods.config.downward import DownwardView, field_value, resource_value
from modules.apimachinery.types import (
    ConfigMap,
    Container,
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    ProjectedVolumeSource,
    Secret,
    ServiceAccountTokenProjection,
    VolumeProjection,
)

DEFAULT_MODE = 0o644
_PERMISSIONS = 0o777
_OWNERS_ALONE = 0o600


class VolumeFile(Struct, frozen=True, gc=False):
    """One file of a volume; its content, perhaps a secret, is left out of the representation."""

    data: bytes
    mode: int = DEFAULT_MODE
    owner: int | None = None
    """User id of the owner; None for the agent's."""

    def __repr__(self) -> str:
        return f"VolumeFile({len(self.data)} bytes, mode={self.mode:o})"


Payload = Mapping[str, VolumeFile]
"""The files of a volume by their path relative to it."""


class VolumeSources(Protocol):
    """The objects in the pod's namespace for its volumes, already fetched; None for a missing object."""

    def config_map(self, name: str) -> ConfigMap | None:
        """Return the configmap of that name."""

    def secret(self, name: str) -> Secret | None:
        """Return the secret of that name."""

    def token(self, wanted: ServiceAccountTokenProjection) -> str | None:
        """Return a token of the pod's service account for that audience and expiration."""


def config_map_payload(
    config_map: ConfigMap | None,
    name: str,
    items: Iterable[KeyToPath] = (),
    mode: int | None = None,
    *,
    optional: bool | None = None,
) -> dict[str, VolumeFile]:
    """Return the files of a configmap: all keys under their names, or only `items` under their paths."""
    data = None
    if config_map is not None:
        data = {key: value.encode() for key, value in config_map.data.items()} | config_map.binary_data
    return _project("configmap", name, data, items, mode, optional=optional)


def secret_payload(
    secret: Secret | None,
    name: str,
    items: Iterable[KeyToPath] = (),
    mode: int | None = None,
    *,
    optional: bool | None = None,
) -> dict[str, VolumeFile]:
    """Return the files of a secret: all keys under their names, or only `items` under their paths."""
    return _project("secret", name, None if secret is None else secret.data, items, mode, optional=optional)


def downward_payload(
    pod: Pod, items: Iterable[DownwardAPIVolumeFile], view: DownwardView, mode: int | None = None
) -> dict[str, VolumeFile]:
    """Return the files with facts about the pod."""
    files = {}
    for item in items:
        if item.field_ref is not None:
            text = field_value(pod, item.field_ref, view)
        elif item.resource_field_ref is not None and pod.spec.containers:
            text = resource_value(pod, pod.spec.containers[0], item.resource_field_ref, view)
        else:
            raise VolumeError("cannot fill the file", item.path, "fieldRef or resourceFieldRef is wanted")
        files[safe_path(item.path)] = VolumeFile(text.encode(), _mode(item.mode, mode))
    return files


def projected_payload(
    pod: Pod, volume: ProjectedVolumeSource, sources: VolumeSources, view: DownwardView
) -> dict[str, VolumeFile]:
    """Return the files of several sources in one directory; of two with one path the later wins."""
    files: dict[str, VolumeFile] = {}
    for projection in volume.sources:
        files |= _projection(pod, projection, sources, view, volume.default_mode)
    return files


def safe_path(path: str) -> str:
    """Return the path of a file within its volume. Raises VolumeError for a path that would leave it or collide with
    `..data` and the like.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith("..") or "\0" in path:
        raise VolumeError("cannot place a file in the volume", repr(path), "a relative path without .. is wanted")
    return str(PurePosixPath(path))


def _projection(
    pod: Pod, projection: VolumeProjection, sources: VolumeSources, view: DownwardView, mode: int | None
) -> dict[str, VolumeFile]:
    if (part := projection.config_map) is not None:
        found = sources.config_map(part.name)
        return config_map_payload(found, part.name, part.items, mode, optional=part.optional)
    if (hidden := projection.secret) is not None:
        secret = sources.secret(hidden.name)
        return secret_payload(secret, hidden.name, hidden.items, mode, optional=hidden.optional)
    if projection.downward_api is not None:
        return downward_payload(pod, projection.downward_api.items, view, mode)
    if (wanted := projection.service_account_token) is not None:
        token = sources.token(wanted)
        if token is None:
            account = pod.spec.service_account_name or "default"
            raise MissingContentError("no token for the service account", account, "the cloud grants tokens")
        return {safe_path(wanted.path): _token_file(pod, token.encode(), _mode(None, mode))}
    raise VolumeError(
        "cannot project into the volume",
        "a source of an unknown kind",
        "configMap, secret, downwardAPI and serviceAccountToken are known",
    )


def _token_file(pod: Pod, token: bytes, mode: int) -> VolumeFile:
    """Return the file of a token. Only its owner may read it: the one user of all the pod's containers, or the agent's
    user and the pod's fsGroup. If the pod sets neither, everybody may (kubelet's projectedVolumeMounter).
    """
    user, security = common_user(pod), pod.spec.security_context
    if user is None and (security is None or security.fs_group is None):
        return VolumeFile(token, mode)
    return VolumeFile(token, _OWNERS_ALONE, user)


def common_user(pod: Pod) -> int | None:
    """Return the user id of all containers of a pod; None when one sets none, or they differ (kubelet's FsUserFrom)."""
    default = pod.spec.security_context.run_as_user if pod.spec.security_context is not None else None
    users = {_user_of(container, default) for container in (*pod.spec.init_containers, *pod.spec.containers)}
    return users.pop() if len(users) == 1 else None


def _user_of(container: Container, default: int | None) -> int | None:
    own = container.security_context
    return own.run_as_user if own is not None and own.run_as_user is not None else default


def _project(
    kind: str,
    name: str,
    data: Mapping[str, bytes] | None,
    items: Iterable[KeyToPath],
    mode: int | None,
    *,
    optional: bool | None,
) -> dict[str, VolumeFile]:
    if data is None:
        if not optional:
            raise MissingContentError(f"{kind} not found", name)
        return {}
    chosen = list(items)
    if not chosen:
        return {safe_path(key): VolumeFile(value, _mode(None, mode)) for key, value in data.items()}
    files = {}
    for item in chosen:
        if item.key in data:
            files[safe_path(item.path)] = VolumeFile(data[item.key], _mode(item.mode, mode))
        elif not optional:
            raise MissingContentError(f"{kind} references non-existent key", f"{name}: {item.key}")
    return files


def _mode(own: int | None, default: int | None) -> int:
    chosen = next((mode for mode in (own, default) if mode is not None), DEFAULT_MODE)
    return chosen & _PERMISSIONS
