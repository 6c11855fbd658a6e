"""Targets of Docker Engine's answers, of the streams of its containers, and of what it is asked for."""

import json
import shutil
import socket
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from beehive.clock import RealClock
from modules.runtimes.docker.answers import (
    ImageSettings,
    Info,
    InspectedCommand,
    InspectedContainer,
    ListedContainer,
    nanoseconds,
)
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.frames import FrameError
from modules.runtimes.docker.images import DockerImages
from modules.runtimes.docker.log_stream import ContainerLog
from modules.runtimes.docker.specs import (
    DockerImageDefaults,
    Here,
    LogLimits,
    check,
    check_pod,
    container_body,
    limits,
    sandbox_body,
)
from modules.runtimes.engine.errors import RequestRefusedError
from protos.cri.v1 import api_pb2 as cri
from tests.fuzz.mutate import misshape, mutate, pieces
from tests.fuzz.oci_spec import TEXTS, disturbed, make_request, requests
from tests.fuzz.target import Target, must
from tests.modules.runtimes.oci.spec.samples import FILES, UNIFIED
from tests.support.directories import AT_END, new_directory

_ID: Final = "a" * 64
_TIME: Final = "2026-11-20T01:54:50.123456789Z"
_LONGEST_ERROR: Final = 6000


class _Engine:
    """A Docker Engine that answers each request with given bytes. It ends with this process."""

    def __init__(self, directory: Path) -> None:
        self.address = directory / "docker.sock"
        self.answer = b""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.address))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(self.answer)
                connection.shutdown(socket.SHUT_WR)


@cache
def _scratch() -> Path:
    directory = new_directory("fuzz-docker-")
    AT_END.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


@cache
def _engine() -> _Engine:
    return _Engine(_scratch())


def _http(body: Any, head: bytes = b"HTTP/1.1 200 OK") -> bytes:
    content = json.dumps(body).encode()
    return b"%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (head, len(content), content)


_STATE: Final = {
    "Status": "exited", "Running": False, "Pid": 7, "ExitCode": 137, "Error": "", "OOMKilled": True,
    "StartedAt": _TIME, "FinishedAt": "0001-01-01T00:00:00Z",
}  # fmt: skip
_IMAGE: Final = {
    "Id": f"sha256:{_ID}", "RepoTags": ["busybox:1", "<none>:<none>"], "RepoDigests": [f"busybox@sha256:{_ID}"],
    "Size": 77_000_000, "Config": {"Entrypoint": None, "Cmd": ["sh"], "Env": ["A=b"], "User": "1000:1000"},
}  # fmt: skip
_BODIES: Final[tuple[Any, ...]] = (
    {"Id": _ID, "State": _STATE, "GraphDriver": {"Data": {"UpperDir": "/var/lib/docker/x"}}},
    [{"Id": _ID, "ImageID": f"sha256:{_ID}", "Labels": {"a": "b"}, "State": "running", "Created": 1_700_000_000}],
    _IMAGE,
    [_IMAGE],
    {"Running": False, "ExitCode": 3, "Pid": 12},
    {"ServerVersion": "20.10.24", "CgroupDriver": "systemd", "DockerRootDir": "/var/lib/docker"},
    {"message": "No such container: a"},
)
_HEADS: Final = (b"HTTP/1.1 200 OK", b"HTTP/1.1 404 Not Found", b"HTTP/1.1 409 Conflict", b"HTTP/1.1 500 Oops")


def _make_answer(random: Random, seeds: Sequence[bytes]) -> bytes:
    """JSON of another shape, or damaged HTTP."""
    if random.random() < 0.3:
        return mutate(random, seeds)
    body = random.choice(_BODIES)
    for _ in range(random.randint(1, 3)):
        body = misshape(random, body)
    return _http(body, random.choice(_HEADS[:1] * 6 + _HEADS))


def _check_answer(data: bytes, random: Random) -> None:
    engine = _engine()
    engine.answer = data
    clock = RealClock()
    client = DockerClient(engine.address, clock)
    images = DockerImages(client, "/root", clock)
    asked: Any = random.choice(
        (
            lambda: _times(client.get("/containers/a/json", InspectedContainer, "look")),
            lambda: client.get("/containers/json", list[ListedContainer], "look"),
            lambda: client.get("/exec/a/json", InspectedCommand, "look"),
            lambda: client.get("/info", Info, "look"),
            lambda: images.status(cri.ImageStatusRequest(image=cri.ImageSpec(image="busybox"))),
            lambda: images.listing(cri.ListImagesRequest()),
            lambda: images.pull(cri.PullImageRequest(image=cri.ImageSpec(image="busybox")), lambda _: True),
            client.negotiate,
        )
    )
    try:
        asked()
    except RequestRefusedError as error:
        must(len(str(error)) < _LONGEST_ERROR, "an error is no page")
    finally:
        clock.close()


def _times(container: InspectedContainer) -> None:
    """A time is valid for a status."""
    state = container.state
    cri.ContainerStatus(started_at=nanoseconds(state.started_at), finished_at=nanoseconds(state.finished_at))


def _frames() -> Sequence[bytes]:
    line = f"{_TIME} hello\n".encode()
    one = b"\1\0\0\0\0\0\0" + bytes([len(line)]) + line
    return [one * 3, one + b"\2" + one[1:], one[:8] + line[:-1] + b"x", line * 3]


def _check_frames(data: bytes, random: Random) -> None:
    path = _scratch() / "logs" / "a.log"
    path.unlink(missing_ok=True)
    log = ContainerLog(_ID, str(path), tty=random.random() < 0.3)
    try:
        for _ in range(2):
            stream, since = log.resume()
            must(not since or since.replace(".", "").isdigit(), "a time to begin at is a number")
            for piece in pieces(random, data):
                log.write(stream, piece)
    except FrameError as error:
        must(len(str(error)) < _LONGEST_ERROR, "an error is no page")
    finally:
        log.close()
    must(path.stat().st_size <= 2 * len(data) + 64 * data.count(b"\n") + 1024, "a log is no longer than what came")


def _requests() -> Sequence[bytes]:
    """Return requests for containers, most of them without what Docker has not."""
    made = []
    for data in requests():
        request = cri.CreateContainerRequest.FromString(data)
        possible = [mount for mount in request.config.mounts if not mount.HasField("image")]
        del request.config.mounts[:]
        request.config.mounts.extend(possible)
        request.config.linux.resources.unified.clear()
        made.append(request.SerializeToString())
    return (*made, requests()[0])


def _check_specs(data: bytes, random: Random) -> None:
    request = disturbed(data, random)
    if request is None:
        return
    machine = replace(UNIFIED, systemd_cgroups=random.random() < 0.3)
    here = Here("/root", machine, random.choice(((1, 40), (1, 44))), LogLimits(1 << 20, 3))
    image = DockerImageDefaults(ImageSettings(user=random.choice(TEXTS), cmd=(random.choice(TEXTS),)))
    try:
        check_pod(cri.RunPodSandboxRequest(config=request.sandbox_config), here)
        json.dumps(sandbox_body(request.sandbox_config, here))
        check(request, image, here)
        body = json.loads(json.dumps(container_body(request, f"sha256:{_ID}", FILES, here)))
        limits(request.config.linux.resources, machine)
    except RequestRefusedError as error:
        must(len(str(error)) < _LONGEST_ERROR, "an error is no page")
        return
    host = body["HostConfig"]
    must(body["Labels"]["io.kubernetes.edgecore.root"] == "/root", "a container has its owner")
    must(host["Privileged"] is False or request.config.linux.security_context.privileged, "privileges are asked for")
    must(not any(".." in each["Target"].split("/") for each in host["Mounts"]), "no mount climbs")
    must(host["CgroupParent"] in request.sandbox_config.linux.cgroup_parent, "a container's group is below its pod's")


TARGETS: Final = (
    Target("answers of Docker", lambda: [_http(body, head) for body in _BODIES for head in _HEADS], _check_answer,
           share=0.5, make=_make_answer),
    Target("logs of Docker", _frames, _check_frames, share=0.5),
    Target("docker-spec", _requests, _check_specs, make=make_request),
)  # fmt: skip
