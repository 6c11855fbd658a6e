"""The fields of a kubeconfig file (v1 Config, k8s.io/client-go/tools/clientcmd/api/v1)."""

from typing import Any

import msgspec


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """Way to an API server."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    """Decoded; it takes precedence over the file."""
    proxy_url: str = ""


class ExecVariable(msgspec.Struct, frozen=True):
    """An environment variable of a credential plug-in."""

    name: str
    value: str


class ExecEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A program that prints credentials."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """A user and its credentials. Its text form contains no secret."""

    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None
    exec: ExecEntry | None = None

    def __repr__(self) -> str:
        return "UserEntry(…)"


class ContextEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, a user and a namespace under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct, frozen=True):
    """A cluster of a file."""

    name: str
    cluster: ClusterEntry


class NamedUser(msgspec.Struct, frozen=True):
    """A user of a file."""

    name: str
    user: UserEntry


class NamedContext(msgspec.Struct, frozen=True):
    """A context of a file."""

    name: str
    context: ContextEntry


class KubeconfigFile(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """One file."""

    api_version: str = msgspec.field(default="v1", name="apiVersion")
    kind: str = "Config"
    preferences: Any = None
    current_context: str = ""
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, user and namespace of a context; paths are absolute or relative to the working directory."""

    where: str
    """The file and the context, for errors."""
    cluster: ClusterEntry
    user: UserEntry
    namespace: str = "default"
