"""Reading kubeconfig files, and the configuration of a pod in its cluster."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from beehive.decoding import convert
from beehive.errors import BeehiveError
from modules.apimachinery.yaml_reader import YamlError, documents
from modules.cloud.client.kubeconfig.model import ClusterEntry, ContextEntry, KubeconfigFile, Selected, UserEntry

MAX_BYTES: Final = 4 * 1024 * 1024
"""Size of the largest file that is read."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NAMES_SHOWN: Final = 20

T = TypeVar("T")


class KubeconfigError(BeehiveError):
    """A kubeconfig file cannot be used; the text names the file and the entry, and no secret."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__("cannot use the kubeconfig", where, why)


class Kubeconfig:
    """Files that were merged: the first file that has an entry or a current context decides it, as in client-go."""

    def __init__(self) -> None:
        self.where = ""
        self.current = ""
        self.clusters: dict[str, ClusterEntry] = {}
        self.users: dict[str, UserEntry] = {}
        self.contexts: dict[str, ContextEntry] = {}

    def add(self, path: Path) -> None:
        """Merge a file behind those before it.

        Raises:
            KubeconfigError: the file cannot be read, is not a kubeconfig, or has a name twice.
        """
        content, where = _read(path), str(path)
        self.where = f"{self.where}:{where}" if self.where else where
        self.current = self.current or content.current_context
        clusters = [(each.name, _cluster_at(each.cluster, path.parent)) for each in content.clusters or ()]
        users = [(each.name, _user_at(each.user, path.parent)) for each in content.users or ()]
        contexts = [(each.name, each.context) for each in content.contexts or ()]
        self.clusters = _unique(clusters, "cluster", where) | self.clusters
        self.users = _unique(users, "user", where) | self.users
        self.contexts = _unique(contexts, "context", where) | self.contexts

    def select(self, context: str = "") -> Selected:
        """Return the cluster, user and namespace of a context; "": the current context.

        Raises:
            KubeconfigError: the context, or its cluster or user, does not exist, or has no server.
        """
        name = context or self.current
        if not name:
            raise KubeconfigError(self.where, f"no current-context is set: name one of {_names(self.contexts)}")
        entry = _entry(self.contexts, name, "context", self.where)
        where = f"{self.where}, context {name}"
        cluster = _entry(self.clusters, entry.cluster, "cluster", where)
        user = _entry(self.users, entry.user, "user", where) if entry.user else UserEntry()
        if not cluster.server:
            raise KubeconfigError(where, f"cluster {entry.cluster} has no server: set its URL")
        return Selected(where=where, cluster=cluster, user=user, namespace=entry.namespace or "default")


def load(paths: Iterable[Path]) -> Kubeconfig:
    """Return the merged files.

    Raises:
        KubeconfigError: a file cannot be read, or is not a kubeconfig.
    """
    merged = Kubeconfig()
    for path in paths:
        merged.add(path)
    return merged


def in_cluster(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Selected:
    """Return the configuration of a pod in its cluster, by its service account.

    Raises:
        KubeconfigError: this process does not run in a pod with a service account.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not (host and port):
        why = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: outside a pod, name a kubeconfig"
        raise KubeconfigError("in-cluster", why)
    for name in ("token", "ca.crt"):
        if not (directory / name).is_file():
            raise KubeconfigError(
                str(directory / name), "missing: does the pod set automountServiceAccountToken: false?"
            )
    namespace = directory / "namespace"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Selected(
        where="in-cluster",
        cluster=ClusterEntry(server=server, certificate_authority=str(directory / "ca.crt")),
        user=UserEntry(token_file=str(directory / "token")),
        namespace=_text(namespace).strip() if namespace.is_file() else "default",
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise KubeconfigError(str(path), f"{error.strerror}: name a file that this user may read") from error
    if len(data) > MAX_BYTES:
        raise KubeconfigError(str(path), f"longer than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise KubeconfigError(str(path), "not UTF-8 text") from None


def _read(path: Path) -> KubeconfigFile:
    where, text = str(path), _text(path)
    try:
        found = [content for content, _ in documents(text) if content is not None]
        content = convert(_as_in_go(found[0]) if found else {}, KubeconfigFile)
    except YamlError as error:
        raise KubeconfigError(f"{where}:{error.line}", "not YAML, or beyond the bounds of size and depth") from None
    except msgspec.ValidationError as error:
        raise KubeconfigError(where, str(error)) from None
    except (TypeError, ValueError):
        raise KubeconfigError(where, "it has a tag or a key that a kubeconfig cannot have") from None
    if (content.api_version or "v1", content.kind or "Config") != ("v1", "Config"):
        raise KubeconfigError(where, "not a Config of apiVersion v1")
    return content


def _as_in_go(value: Any) -> Any:
    """Return a value of YAML as Go decodes it: null is an absent field, and base64 may have line breaks."""
    if isinstance(value, dict):
        return {
            name: "".join(member.splitlines())
            if isinstance(member, str) and str(name).endswith("-data")
            else _as_in_go(member)
            for name, member in value.items()
            if member is not None
        }
    return [_as_in_go(each) for each in value] if isinstance(value, list) else value


def _unique(entries: list[tuple[str, T]], what: str, where: str) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, entry in entries:
        if name in found:
            raise KubeconfigError(where, f"{what} {name} is there twice: remove one")
        found[name] = entry
    return found


def _entry(entries: Mapping[str, T], name: str, what: str, where: str) -> T:
    if name not in entries:
        raise KubeconfigError(where, f"no {what} is named {name!r}; there are: {_names(entries)}")
    return entries[name]


def _names(entries: Mapping[str, object]) -> str:
    shown = ", ".join(sorted(entries)[:_NAMES_SHOWN])
    return (shown + (", …" if len(entries) > _NAMES_SHOWN else "")) or "none"


def _cluster_at(entry: ClusterEntry, directory: Path) -> ClusterEntry:
    return msgspec.structs.replace(entry, certificate_authority=_at(entry.certificate_authority, directory))


def _user_at(entry: UserEntry, directory: Path) -> UserEntry:
    def place(path: str) -> str:
        return _at(path, directory)

    program = entry.exec
    if program is not None and "/" in program.command:
        program = msgspec.structs.replace(program, command=place(program.command))
    return msgspec.structs.replace(
        entry,
        client_certificate=place(entry.client_certificate),
        client_key=place(entry.client_key),
        token_file=place(entry.token_file),
        exec=program,
    )


def _at(path: str, directory: Path) -> str:
    return str(directory / path) if path else ""
