"""The client of Docker's API against a server that says every byte itself; and the program of the pause image."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.docker import client as client_module
from modules.runtimes.docker.answers import Created, ListedContainer
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.errors import ConflictError, DockerUnreachableError
from modules.runtimes.docker.pause_image import PROCESSORS, pause_archive, pause_program
from modules.runtimes.docker.user_files import LARGEST_ARCHIVE, refuse_numbers_as_names
from modules.runtimes.engine.errors import BadRequestError, NoSuchObjectError, NotProvidedError, RunFailedError
from protos.cri.v1 import api_pb2 as cri
from protos.status import StatusCode
from tests.modules.runtimes.oci.images.tars import file, tar
from tests.modules.runtimes.process.node import eventually

CLOCK = RealClock()


class FakeDocker:
    """Answers each connection with the same bytes, then closes it; keeps the requests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer = b""
        self.requests: list[bytes] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(65_536))
                try:
                    connection.sendall(self.answer)
                except OSError:
                    continue


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeDocker]:
    """A Docker that says what a test wants."""
    made = FakeDocker(tmp_path / "d.sock")
    yield made
    made.close()


def _answer(status: str, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


@pytest.mark.parametrize(
    ("version", "agreed"), [("1.41", (1, 41)), ("1.40", (1, 40)), ("1.52", (1, 44)), ("2.0", (1, 44))]
)
def test_the_version_is_agreed_on(docker: FakeDocker, version: str, agreed: tuple[int, int]) -> None:
    """It is the highest that both sides know, and asked for from then on."""
    client = DockerClient(docker.path, CLOCK)
    docker.answer = _answer("200 OK", b"OK", f"Api-Version: {version}")
    client.negotiate()
    assert client.version == agreed
    docker.answer = _answer("200 OK", b"[]")
    assert client.get("/containers/json", list[ListedContainer], "list", {"all": "1"}) == []
    assert docker.requests[-1].startswith(f"GET /v{agreed[0]}.{agreed[1]}/containers/json?all=1 ".encode())


@pytest.mark.parametrize("header", ["Api-Version: 1.39", "Api-Version: x", "Other: 1"])
def test_a_docker_that_is_too_old(docker: FakeDocker, header: str) -> None:
    """It is refused, with what is needed."""
    docker.answer = _answer("200 OK", b"OK", header)
    with pytest.raises(DockerUnreachableError, match=r"19\.03"):
        DockerClient(docker.path, CLOCK).negotiate()


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        ("400 Bad Request", BadRequestError, StatusCode.INVALID_ARGUMENT),
        ("404 Not Found", NoSuchObjectError, StatusCode.NOT_FOUND),
        ("409 Conflict", ConflictError, StatusCode.FAILED_PRECONDITION),
        ("500 Internal Server Error", RunFailedError, StatusCode.UNKNOWN),
    ],
)
def test_refusals(docker: FakeDocker, status: str, kind: type[RunFailedError], code: StatusCode) -> None:
    """An error of Docker's keeps its text, and gets the matching gRPC status."""
    docker.answer = _answer(status, b'{"message": "no such thing"}')
    with pytest.raises(kind, match=r"^cannot make it: no such thing$") as refusal:
        DockerClient(docker.path, CLOCK).call("POST", "/x", "make it")
    assert refusal.value.status is code


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        _answer("200 OK", b"{}"),
        _answer("200 OK", b'{"Id": 1}'),
        _answer("200 OK", b"[" * 100_000),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        _answer("200 OK", b'{"Id": "' + b"a" * 5000 + b'"}'),
    ],
    ids=["nothing", "no HTTP", "cut", "no id", "wrong type", "deep", "long head", "long body"],
)
def test_invalid_answers(docker: FakeDocker, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes that is no answer counts as a Docker that is not there: nothing is concluded from it."""
    monkeypatch.setattr(client_module, "_LONGEST_BODY", 4096)
    docker.answer = answer
    with pytest.raises(DockerUnreachableError) as refusal:
        DockerClient(docker.path, CLOCK).post("/x", Created, "make it", {})
    assert refusal.value.status is StatusCode.UNAVAILABLE


@pytest.mark.parametrize("spare", [20_000, 0])
def test_the_file_of_users_is_bounded(docker: FakeDocker, spare: int) -> None:
    """It is the image's or the container's, and is read at each start and command, also those of probes."""
    docker.answer = _answer("200 OK", tar(file("passwd", b"\n" * (LARGEST_ARCHIVE - spare))))
    security = cri.LinuxContainerSecurityContext(run_as_user=cri.Int64Value(value=1000))

    def refuse() -> None:
        refuse_numbers_as_names(DockerClient(docker.path, CLOCK), "c", security, "", "start it")

    if spare:
        refuse()
        return
    with pytest.raises(BadRequestError, match="/etc/passwd of the image has more than"):
        refuse()


def test_no_docker(tmp_path: Path) -> None:
    """The error names the socket, and says how to install Docker."""
    with pytest.raises(DockerUnreachableError, match=r"no\.sock: No such file .*apt-get install docker\.io"):
        DockerClient(tmp_path / "no.sock", CLOCK).negotiate()


@pytest.mark.skipif(os.uname().machine not in PROCESSORS, reason="there is no pause program for this processor")
def test_the_pause_program(tmp_path: Path) -> None:
    """The program waits, and ignores SIGCHLD, so that the kernel reaps the processes that it adopts."""
    program = tmp_path / "pause"
    program.write_bytes(pause_program(PROCESSORS[os.uname().machine]))
    program.chmod(0o755)
    with subprocess.Popen([program]) as process:
        status = Path(f"/proc/{process.pid}/status")
        eventually(lambda: status.read_text().split("SigIgn:")[1].split()[0], lambda it: int(it, 16) >> 16 & 1 == 1)
        assert process.poll() is None
        process.kill()


def test_the_pause_image() -> None:
    """The image is the same each time; an unsupported processor is refused by name."""
    for machine in PROCESSORS:
        assert pause_archive(machine) == pause_archive(machine)
    with pytest.raises(NotProvidedError, match="mips64"):
        pause_archive("mips64")
