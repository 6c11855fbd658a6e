"""The two container runtimes that everything is tested on."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from beehive.clock import RealClock
from edged.cri import ContainerId, CriClient, CriError, SandboxId
from edged.embedded import purge
from modules.processes.edgecore.config import EMBEDDED_ENDPOINT
from tests.end_to_end.processes import PATIENCE, wait_until
from tests.support.containerd import PrivateContainerd
from tests.support.images import busybox_image

IMAGES: Final = ("docker.io/library/busybox:1.36", "docker.io/library/busybox:1.37")


class RuntimeUnderTest(Protocol):
    """What a machine needs to know of its runtime."""

    @property
    def name(self) -> str:
        """In the tests' names."""

    @property
    def endpoint(self) -> str:
        """As the configuration has it."""

    def kill_containers(self, edged_root: Path) -> None:
        """Ends all containers while no edgecore runs, as a power failure would."""

    def pods(self, edged_root: Path) -> int:
        """How many sandboxes there are."""

    def clear(self, edged_root: Path) -> None:
        """Removes all pods, when no edgecore runs any more."""

    def left_behind(self) -> dict[str, list[str]]:
        """What it still has of any pod, by kind; no kind of which there is nothing."""


class EmbeddedUnderTest:
    """The embedded runtime: its containers belong to the machine's own directory."""

    name = "embedded"
    endpoint = EMBEDDED_ENDPOINT

    def kill_containers(self, edged_root: Path) -> None:
        """Kills their main processes, which their shims record."""
        for record in (edged_root / "embedded" / "containers").glob("*/run.json"):
            with suppress(ProcessLookupError):
                os.kill(json.loads(record.read_bytes())["pid"], signal.SIGKILL)

    def pods(self, edged_root: Path) -> int:
        """The directories of sandboxes."""
        return sum(1 for _ in (edged_root / "embedded" / "sandboxes").glob("*"))

    def clear(self, edged_root: Path) -> None:
        """Purges the state directory."""
        if (edged_root / "embedded").exists():
            clock = RealClock()
            purge(edged_root / "embedded", clock)
            clock.close()

    def left_behind(self) -> dict[str, list[str]]:
        """All it has is below the machine's directory, and seen there."""
        return {}


class ContainerdUnderTest:
    """A containerd that one test worker has for itself, for all its tests. A context manager."""

    name = "containerd"

    def __init__(self, daemon: PrivateContainerd) -> None:
        self.endpoint = daemon.endpoint
        self.daemon = daemon
        self._client = CriClient(daemon.endpoint, request_timeout=PATIENCE)
        for image in IMAGES:
            daemon.import_image(busybox_image(image, Labels={"name": image}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def kill_containers(self, edged_root: Path) -> None:
        """By the daemon, at once."""
        for each in self._client.list_containers():
            self._client.stop_container(ContainerId(each.id), 0)

    def pods(self, edged_root: Path) -> int:
        """All sandboxes: nobody else uses the daemon."""
        return len(self._client.list_pod_sandboxes())

    def clear(self, edged_root: Path) -> None:
        """Stops and removes all sandboxes; again, as long as the daemon is still busy starting what is in them."""
        wait_until(self._cleared, "all sandboxes are removed")

    def left_behind(self) -> dict[str, list[str]]:
        """Also what it should have given back to the machine."""
        directory, state = self.daemon.directory, self.daemon.directory / "state"
        leases = entries(directory / "ipam" / directory.name)
        kinds = {
            "sandboxes": [each.id for each in self._client.list_pod_sandboxes()],
            "containers": [each.id for each in self._client.list_containers()],
            "shims' bundles": entries(state / "io.containerd.runtime.v2.task" / "k8s.io"),
            "network namespaces": entries(state / "io.containerd.grpc.v1.cri" / "netns"),
            "addresses": [each for each in leases if each[0].isdecimal()],
        }
        return {kind: left for kind, left in kinds.items() if left}

    def _cleared(self) -> bool:
        try:
            for sandbox in self._client.list_pod_sandboxes():
                self._client.stop_pod_sandbox(SandboxId(sandbox.id))
                self._client.remove_pod_sandbox(SandboxId(sandbox.id))
        except CriError as error:
            print(f"not cleared yet: {error}")  # noqa: T201 - pytest shows it when the test fails
            return False
        return True


def entries(directory: Path) -> list[str]:
    """What is in a directory, if there is one."""
    return sorted(each.name for each in directory.iterdir()) if directory.exists() else []
