"""`edgecore containers`: the containers of the node, as `crictl ps` lists them. `edgecore inspect`: everything that the
container runtime reports about a container, a pod's sandbox or an image.
"""

import argparse
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from edged.cri import ContainerId, SandboxId
from edged.cri.client import CriClient
from edged.cri.endpoint import socket_path
from edged.errors import EdgedError
from edged.pods.labels import POD_NAME, POD_NAMESPACE
from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_error, print_json, print_lines, print_yaml
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.runtime_commands.connection import config_of, connected
from modules.processes.edgecore.runtime_commands.documents import information_of, plain, without_values
from protos.cri.v1 import api_pb2 as cri

_CONTAINER, _POD, _IMAGE = "container", "pod", "image"
_BEGINNING: Final = re.compile(r"(sha256:)?[0-9a-f]{1,64}")
_MOST_NAMED: Final = 8

ID_LETTERS: Final = 12
"""Letters of a short id."""

_HEAD: Final = ("CONTAINER ID", "POD", "CONTAINER", "STATE", "ATTEMPT", "PID", "IMAGE", "AGE", "MEMORY")
_WIDE: Final = ("POD ID", "IMAGE ID", "LOG")
_UNKNOWN: Final = "-"
_MEBIBYTE: Final = 1 << 20
_NANOSECONDS: Final = 1_000_000_000


class ListedContainer(NamedTuple):
    """A container with what CRI's listing does not say."""

    item: cri.Container
    pid: int = 0
    """0 if it does not run, or the runtime does not say it."""
    log: str = ""
    memory: int | None = None
    """Working set in bytes; None if it is not measured."""

    @property
    def pod(self) -> str:
        """Namespace and name of its pod; its sandbox if no kubelet has made it."""
        labels = self.item.labels
        if labels.get(POD_NAME):
            return f"{labels.get(POD_NAMESPACE, '?')}/{labels[POD_NAME]}"
        return short(self.item.pod_sandbox_id)

    @property
    def state(self) -> str:
        """Its state in crictl's words."""
        return cri.ContainerState.Name(self.item.state).removeprefix("CONTAINER_").capitalize()


@reporting_errors
def containers(chosen: argparse.Namespace) -> None:
    """Print the containers that run, or all; the newest first."""
    with connected(config_of(chosen), chosen.socket) as runtime:
        items = _listed(runtime, ended=chosen.all)
        if chosen.quiet:
            print_lines(each.id for each in items)
            return
        found = _inspected(runtime, items)
    match chosen.output:
        case "json":
            print_json({"containers": [_document(each) for each in found]}, indent=2)
        case "yaml":
            print_yaml({"containers": [_document(each) for each in found]})
        case _ if not found:
            print_error(
                "edgecore", "no containers" if chosen.all else "no container runs; -a lists those that have ended"
            )
        case form:
            rows = [row(each, time.time(), wide=form == "wide") for each in found]
            print_lines(aligned([_HEAD + _WIDE if form == "wide" else _HEAD, *rows]))


def short(identity: str) -> str:
    """Return the beginning of an id of a container, a sandbox or an image."""
    return identity.removeprefix("sha256:")[:ID_LETTERS]


def row(container: ListedContainer, now: float, *, wide: bool = False) -> tuple[str, ...]:
    """Return the cells of a container; `now` in seconds since the epoch."""
    item = container.item
    cells = (
        short(item.id),
        container.pod,
        item.metadata.name,
        container.state,
        str(item.metadata.attempt),
        str(container.pid or _UNKNOWN),
        item.image.user_specified_image or item.image.image,
        human_duration(max(0, int(now - item.created_at / _NANOSECONDS))),
        _UNKNOWN if container.memory is None else f"{container.memory / _MEBIBYTE:.1f}Mi",
    )
    more = (short(item.pod_sandbox_id), short(item.image_id or item.image_ref), container.log or _UNKNOWN)
    return (*cells, *more) if wide else cells


def _listed(runtime: CriClient, *, ended: bool) -> Sequence[cri.Container]:
    wanted = None if ended else cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
    return sorted(runtime.list_containers(wanted), key=_age, reverse=True)


def _age(item: cri.Container | cri.PodSandbox) -> tuple[int, int]:
    """Return the sort key, the oldest first: an attempt tells the order within one tick of the clock."""
    return item.created_at, item.metadata.attempt


def _inspected(runtime: CriClient, items: Sequence[cri.Container]) -> list[ListedContainer]:
    """Return the containers with their processes and memory, which the runtime may not say."""
    memory: dict[str, int] = {}
    with suppress(EdgedError):
        for stats in runtime.list_container_stats():
            if stats.memory.HasField("working_set_bytes"):
                memory[stats.attributes.id] = stats.memory.working_set_bytes.value
    found = []
    for item in items:
        listed = ListedContainer(item, memory=memory.get(item.id))
        with suppress(EdgedError):  # it was just removed
            answer = runtime.container_status(ContainerId(item.id), verbose=True)
            listed = listed._replace(pid=process_of(information_of(answer.info)), log=answer.status.log_path)
        found.append(listed)
    return found


def process_of(information: dict[str, Any]) -> int:
    """Return the process in the information of a verbose status; 0 without one."""
    pid = information.get("pid")
    return pid if isinstance(pid, int) else 0


def _document(container: ListedContainer) -> dict[str, Any]:
    more = {"pid": container.pid, "logPath": container.log, "memoryBytes": container.memory}
    return {**plain(container.item), **{key: value for key, value in more.items() if value}}


class RuntimeObject(NamedTuple):
    """An object of the runtime."""

    kind: str
    id: str
    text: str
    """A description, to choose by."""

    def __str__(self) -> str:
        """Return its kind, its short id and its description."""
        return f"{self.kind} {short(self.id)} ({self.text})"


@reporting_errors
def inspect(chosen: argparse.Namespace) -> None:
    """Print an object as JSON or YAML."""
    config = config_of(chosen)
    if chosen.show_env:
        check_owner(socket_path(config.runtime_endpoint))
    with connected(config, chosen.socket) as runtime:
        document = inspected(runtime, find(runtime, chosen.object, chosen.type))
    shown = document if chosen.show_env else without_values(document)
    if chosen.output == "yaml":
        print_yaml(shown)
    else:
        print_json(shown, indent=2)


def check_owner(socket: Path) -> None:
    """Refuse users other than root and the owner of the runtime's socket. Raises EdgedError."""
    with suppress(FileNotFoundError):
        if os.geteuid() not in (0, socket.stat().st_uid):
            raise EdgedError("show the values of variables", str(socket), "only root and the owner of the socket may")


def find(runtime: CriClient, wanted: str, kind: str = "") -> RuntimeObject:
    """Return the object of an id, of the name of a pod or an image, or of the beginning of an id.

    Raises:
        EdgedError: no object or several have it; the error names them.
    """
    present = [each for each in _present(runtime) if kind in ("", each.kind)]
    exact = [each for each in present if wanted in (each.id, each.id.removeprefix("sha256:"))]
    named = _pods_named(runtime, wanted) if kind in ("", _POD) else []
    for matches in (exact, named, _begun(present, wanted), _images_named(runtime, wanted, present)):
        if len(matches) == 1:
            return matches[0]
        if matches:
            several = ", ".join(map(str, matches[:_MOST_NAMED])) + (", …" if len(matches) > _MOST_NAMED else "")
            raise EdgedError("several objects are meant", wanted, several)
    hint = "`edgecore containers -a`, `edgecore pods` and `edgecore images list` show what is there"
    raise EdgedError(f"find the {kind or 'container, pod or image'}", wanted, hint)


def inspected(runtime: CriClient, found: RuntimeObject) -> dict[str, Any]:
    """Return the status of an object and the runtime's information about it."""
    answer: cri.ContainerStatusResponse | cri.PodSandboxStatusResponse | cri.ImageStatusResponse
    if found.kind == _CONTAINER:
        answer = runtime.container_status(ContainerId(found.id), verbose=True)
        information = information_of(answer.info)
        cgroup = cgroup_of(process_of(information))
        return {"status": plain(answer.status), "info": information | ({"cgroup": cgroup} if cgroup else {})}
    if found.kind == _POD:
        answer = runtime.pod_sandbox_status(SandboxId(found.id), verbose=True)
        containers = [plain(each) for each in answer.containers_statuses]
        document = {"status": plain(answer.status), "info": information_of(answer.info)}
        return document | ({"containers": containers} if containers else {})
    answer = runtime.image_status_response(cri.ImageSpec(image=found.id), verbose=True)
    return {"status": plain(answer.image), "info": information_of(answer.info)}


def cgroup_of(pid: int, proc: Path = Path("/proc")) -> str:
    """Return the control group of a process, in the unified hierarchy or else in memory's; empty without one."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text(errors="replace").splitlines() if pid else []
    except OSError:
        return ""
    groups = dict(line.split(":", 2)[1:] for line in lines if line.count(":") >= 2)
    unified = groups.get("", "")
    memory = next((path for names, path in groups.items() if "memory" in names.split(",")), "")
    return memory or unified


def _present(runtime: CriClient) -> Iterator[RuntimeObject]:
    for container in runtime.list_containers():
        pod = _pod_of(container.labels)
        yield RuntimeObject(_CONTAINER, container.id, f"{container.metadata.name} of {pod}, {_state(container)}")
    for sandbox in runtime.list_pod_sandboxes():
        yield RuntimeObject(_POD, sandbox.id, f"{sandbox.metadata.namespace}/{sandbox.metadata.name}")
    for image in runtime.list_images():
        names = [*image.repo_tags, *image.repo_digests]
        yield RuntimeObject(_IMAGE, image.id, names[0] if names else "without a name")


def _begun(present: Sequence[RuntimeObject], beginning: str) -> list[RuntimeObject]:
    if _BEGINNING.fullmatch(beginning) is None:
        return []
    letters = beginning.removeprefix("sha256:")
    return [each for each in present if each.id.removeprefix("sha256:").startswith(letters)]


def _pods_named(runtime: CriClient, name: str) -> list[RuntimeObject]:
    """Return the newest sandbox of each pod of this name: `POD`, `pod/POD` or `NAMESPACE/POD`."""
    newest: dict[tuple[str, str], cri.PodSandbox] = {}
    for sandbox in sorted(runtime.list_pod_sandboxes(), key=_age):
        newest[sandbox.metadata.namespace, sandbox.metadata.name] = sandbox
    return [
        RuntimeObject(_POD, sandbox.id, f"{namespace}/{pod}")
        for (namespace, pod), sandbox in sorted(newest.items(), key=lambda each: each[0])
        if name in (pod, f"{_POD}/{pod}", f"{namespace}/{pod}")
    ]


def _images_named(runtime: CriClient, name: str, present: Sequence[RuntimeObject]) -> list[RuntimeObject]:
    """Return the image of a name. A runtime without images knows every name: only listed images are returned."""
    images = [each for each in present if each.kind == _IMAGE]
    with suppress(EdgedError):  # it is no name of an image
        image = runtime.image_status(cri.ImageSpec(image=name)) if images else None
        return [each for each in images if image is not None and each.id == image.id][:1]
    return []


def _pod_of(labels: Any) -> str:
    return f"{labels.get(POD_NAMESPACE, '?')}/{labels.get(POD_NAME, '?')}"


def _state(container: cri.Container) -> str:
    return cri.ContainerState.Name(container.state).removeprefix("CONTAINER_").lower()
