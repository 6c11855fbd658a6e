"""The scratch directory of the demo and what runs in it: a cloud stub and an edge node on the embedded runtime."""

import os
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

import msgspec

from beehive.errors import BeehiveError
from beehive.files.removal import remove_tree
from edged.volumes import KernelMounts, VolumeError, points_below
from modules.cloudcore.client import Client
from modules.demo import orphans
from modules.demo.child import Child
from modules.demo.events import Events, Patience, PodChanged
from modules.edgecontroller.commands import Apply, Get
from modules.edgecontroller.kinds import JsonObject
from modules.edgecore.config import EdgeCoreConfig
from modules.edgecore.config.writing import render

_START_SECONDS: Final = 60.0
_LOG_LINES: Final = 15
_LONGEST_DIRECTORY: Final = 60
"""Characters of the scratch directory's path; sockets lie below it, and their paths may have 107 bytes."""


class StageError(BeehiveError):
    """A process of the demo did not do what it should; the text holds the end of its log."""


class Stage:
    """A context manager: makes the scratch directory, and at its end removes everything that came into being.

    Args:
        events: takes changes of pods; lets time pass.
        complain: where things are said that could not be removed.
    """

    def __init__(self, events: Events, complain: TextIO) -> None:
        self._events = events
        self._complain = complain
        self._children: list[Child] = []
        self.directory = _scratch_directory()
        self.socket = self.directory / "cloud.sock"
        """cloudcore's control socket."""
        self.pod_logs = self.directory / "edge" / "logs" / "pods"
        """The logs of the containers."""
        self.port = _free_port()
        """TCP port of the node's `/pods` and `/healthz`."""

    def __enter__(self) -> Self:
        orphans.adopt()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def start(self) -> None:
        """Starts both processes; the edge node is not ready yet when this returns.

        Raises:
            StageError: cloudcore did not start, or somebody asked to end.
        """
        address = self._start_cloud()
        self._start_edge(address)

    def apply(self, objects: list[JsonObject]) -> None:
        """Hands objects to the cloud.

        Raises:
            StageError: one was refused.
            ControlError: the cloud is not there.
        """
        for item in Client(self.socket).run(Apply(objects)):
            if item.error:
                raise StageError("apply an example", item.error)

    def watch(self) -> None:
        """From now on every change of a pod is an event.

        By a thread outside the actor model: the demo has no bus, and a blocking read of the control socket has no other
        form. It ends with the connection.
        """
        threading.Thread(target=self._follow, name="watch", daemon=True).start()

    def trouble(self) -> str:
        """What is wrong with the processes; empty when nothing is. Also reaps containers that have ended."""
        orphans.reap(frozenset(child.pid for child in self._children))
        return next((trouble for child in self._children if (trouble := child.trouble())), "")

    def logs(self) -> list[str]:
        """The ends of the logs of both processes."""
        lines: list[str] = []
        for child in self._children:
            lines += [f"--- the last lines of {child.name}:", *child.tail(_LOG_LINES)]
        return lines

    def _start_cloud(self) -> str:
        ready = self.directory / "cloud.address"
        arguments = ["run", "--listen", "127.0.0.1:0", "--socket", str(self.socket), "--ready-file", str(ready)]
        self._children.append(Child("modules.cloudcore", arguments, self.directory / "cloudcore.log"))
        patience = Patience(self._events, _START_SECONDS)
        while not ready.exists():
            trouble = self.trouble()
            if trouble or not patience.lasts():
                raise StageError("start cloudcore", trouble or "it is not ready", "\n".join(self.logs()))
        return ready.read_text().strip()

    def _start_edge(self, address: str) -> None:
        file = self.directory / "edgecore.yaml"
        file.write_text(render(_config(self.directory / "edge", address, self.port)))
        self._children.append(
            Child("modules.edgecore", ["run", "--config", str(file)], self.directory / "edgecore.log")
        )

    def _follow(self) -> None:
        try:
            for change, item in Client(self.socket).watch(Get("Pod", namespace=None)):
                if item.object is not None:
                    self._events.put(PodChanged(item.object, deleted=change == "DELETED"))
        except (BeehiveError, OSError):
            return  # the connection ends with cloudcore, and that is noticed by `trouble`

    def _clear(self) -> None:
        """Node first, so that nothing is started again while the containers are ended; then everything else."""
        for child in reversed(self._children):
            child.ask_to_end()
        for child in self._children:
            child.end(self._events)
        left = orphans.end_all(self._events)
        mounts = KernelMounts()
        for point in points_below(mounts, self.directory):
            with suppress(VolumeError):  # volumes in memory, of pods that were not deleted
                mounts.unmount(point)
        with suppress(OSError):
            remove_tree(self.directory)
        if left:
            self._complain.write(f"demo: these processes do not even end by SIGKILL: {left}\n")
        if self.directory.exists():
            self._complain.write(f"demo: {self.directory} could not be removed\n")


def _scratch_directory() -> Path:
    """A new directory below the one for temporary files, unless that has a path too long for sockets."""
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > _LONGEST_DIRECTORY:
        parent = Path("/tmp")  # noqa: S108 - mkdtemp makes it safe
    return Path(tempfile.mkdtemp(prefix="edgecore-", dir=parent))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _config(root: Path, cloud: str, port: int) -> EdgeCoreConfig:
    """The embedded defaults below `root`, for the cloud at an address and a port of the node's own."""
    replace = msgspec.structs.replace
    config = EdgeCoreConfig.embedded(root)
    hub = config.modules.edge_hub
    # the demo's own cloudcore listens there, on the loopback interface, before the node begins, and both end together
    edged = replace(config.modules.edged, allow_unisolated_root=True)
    kubelet = replace(edged.tailored_kubelet_config, read_only_port=port)
    return replace(
        config,
        modules=replace(
            config.modules,
            edge_hub=replace(hub, websocket=replace(hub.websocket, server=f"ws://{cloud}")),
            edged=replace(edged, tailored_kubelet_config=kubelet),
        ),
    )
