"""`edgecore containers`: the containers that the container runtime of the node has, as `crictl ps` lists them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from edged.cri import ContainerId
from edged.errors import EdgedError
from edged.pods.labels import POD_NAME, POD_NAMESPACE
from modules.processes.edgecore.local.pods import table
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.runtime_commands.connection import config_of, connected
from modules.processes.edgecore.runtime_commands.documents import information_of, plain
from modules.tools.printing.ages import human_duration
from modules.tools.printing.terminal import print_error, print_json, print_lines, print_yaml
from protos.cri.v1 import api_pb2 as cri

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from edged.cri import CriClient

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
        """Namespace and name of its pod; its sandbox for one that no kubelet has made."""
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
    with connected(config_of(chosen)) as runtime:
        items = _listed(runtime, ended=chosen.all)
        if chosen.quiet:
            print_lines(each.id for each in items)
            return
        found = _looked_at(runtime, items)
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
            print_lines(table([_HEAD + _WIDE if form == "wide" else _HEAD, *rows]))


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
    return sorted(runtime.list_containers(wanted), key=lambda each: -each.created_at)


def _looked_at(runtime: CriClient, items: Sequence[cri.Container]) -> list[ListedContainer]:
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
