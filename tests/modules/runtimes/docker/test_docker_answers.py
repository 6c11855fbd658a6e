"""What follows from Docker's answers, by a Docker in memory: images, starts and ends, lost connections, files."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.clock import Clock
from beehive.decoding import convert
from beehive.http.errors import HttpError
from beehive.simulation import Simulation
from modules.runtimes.docker.answers import ListedContainer
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.driver import DockerDriver
from modules.runtimes.docker.errors import ConflictError, DockerUnreachableError
from modules.runtimes.docker.images import DockerImages, _authorization
from modules.runtimes.docker.labels import OWNER
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.processes import DockerProcesses
from modules.runtimes.docker.user_files import refuse_numbers_as_names
from modules.runtimes.docker.watch import DockerWatch
from modules.runtimes.engine.errors import BadRequestError, NoSuchObjectError, RequestRefusedError, RunFailedError
from modules.runtimes.engine.records import ContainerId, ContainerRecord, Exit, Run
from modules.runtimes.oci.images.names import ONE_NAME
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.tars import directory, file, symlink, tar
from tests.support.failing import Failing

_OURS = "/state"
_SECOND = 1_000_000_000


class MemoryDocker:
    """A Docker that has images and containers, and answers with errors on demand."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        """Answers by path."""
        self.asked: list[str] = []
        self.errors: dict[str, RequestRefusedError] = {}
        """By method and path."""

    @property
    def client(self) -> DockerClient:
        """As its users know it."""
        return cast("DockerClient", self)

    def call(self, method: str, path: str, attempt: str, query: Any = None, body: Any = None) -> Any:
        """Answer a request."""
        self.asked.append(f"{method} {path}")
        if error := self.errors.get(f"{method} {path}"):
            raise error
        if method != "GET":
            return b""
        found = self.objects.get(path if query is None or "path" not in query else query["path"])
        if found is None:
            raise NoSuchObjectError(attempt, "no such object")
        return found

    def archive(self, container_id: str, path: str, attempt: str, _limit: int) -> bytes:
        """Answer with a file."""
        return bytes(self.call("GET", f"/containers/{container_id}/archive", attempt, {"path": path}))

    def get(self, path: str, kind: Any, attempt: str, query: Any = None) -> Any:
        """Answer with an object."""
        return convert(self.call("GET", path, attempt, query), kind)


# images


@pytest.fixture
def docker() -> MemoryDocker:
    """A Docker with an image of two names, and no container."""
    made = MemoryDocker()
    image = {"Id": "sha256:" + "a" * 64, "RepoTags": ["app:1", "example.org/app:1"], "RepoDigests": ["app@sha256:d"]}
    for name in ("docker.io%2Flibrary%2Fapp%3A1", "example.org%2Fapp%3A1", "sha256%3A" + "a" * 64):
        made.objects[f"/images/{name}/json"] = image
    made.objects["/containers/json"] = []
    return made


def _remove(docker: MemoryDocker, name: str, **annotations: str) -> list[str]:
    images = DockerImages(docker.client, _OURS, Simulation(1).clock)
    images.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=name, annotations=annotations)))
    return [each for each in docker.asked if each.startswith("DELETE")]


_ALL_NAMES = [
    "DELETE /images/app%3A1",
    "DELETE /images/example.org%2Fapp%3A1",
    "DELETE /images/app%40sha256%3Ad",
    "DELETE /images/sha256%3A" + "a" * 64,
]


def test_an_image_goes_with_all_its_names(docker: MemoryDocker) -> None:
    """Docker would keep it under the others; some of them may be gone meanwhile."""
    docker.errors[_ALL_NAMES[3]] = NoSuchObjectError("remove it", "no such image")
    assert _remove(docker, "app:1") == _ALL_NAMES
    assert _remove(MemoryDocker(), "app:1") == []


def test_one_of_several_names_of_an_image_goes_alone(docker: MemoryDocker) -> None:
    """Where a client asks for it, and not for the id, or for the last name."""
    assert _remove(docker, "app:1", **{ONE_NAME: ""}) == _ALL_NAMES[:1]
    docker.asked.clear()
    assert _remove(docker, "sha256:" + "a" * 64, **{ONE_NAME: ""}) == _ALL_NAMES
    docker.asked.clear()
    for image in docker.objects.values():
        if image:
            image["RepoTags"] = ["app:1"]
    assert _remove(docker, "app:1", **{ONE_NAME: ""}) == [_ALL_NAMES[0], *_ALL_NAMES[2:]]


@pytest.mark.parametrize(
    "error", [ConflictError("remove it", "a container uses it"), DockerUnreachableError("remove it", "no answer")]
)
def test_an_image_that_stays_is_no_success(docker: MemoryDocker, error: RequestRefusedError) -> None:
    docker.errors[_ALL_NAMES[0]] = error
    with pytest.raises(type(error)):
        _remove(docker, "app:1")


def test_an_image_that_another_call_removes_meanwhile_is_a_success(
    docker: MemoryDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Docker says of the name."""
    call = docker.call

    def vanishing(method: str, path: str, attempt: str, *more: Any) -> Any:
        if method == "DELETE":
            docker.objects.clear()
            raise ConflictError(attempt, "it is being removed")
        return call(method, path, attempt, *more)

    monkeypatch.setattr(docker, "call", vanishing)
    _remove(docker, "app:1")


def test_images_of_others_are_not_collected(docker: MemoryDocker) -> None:
    """Containers that somebody else has made in this Docker need theirs, and sandboxes need pause."""
    ours, theirs, pause = (f"sha256:{letter * 64}" for letter in "bcd")
    docker.objects["/containers/json"] = [
        {"Id": "1", "ImageID": ours, "Labels": {OWNER: _OURS}},
        {"Id": "2", "ImageID": theirs, "Labels": {OWNER: "/other"}},
        {"Id": "3", "ImageID": pause, "Labels": {OWNER: _OURS}},
    ]
    docker.objects["/images/json"] = [{"Id": each} for each in (ours, theirs, pause)]
    docker.objects["/images/docker.io%2Fedgecore%2Fpause%3A1/json"] = {"Id": pause}
    listed = DockerImages(docker.client, _OURS, Simulation(1).clock).listing(cri.ListImagesRequest()).images
    assert {each.id: each.pinned for each in listed} == {ours: False, theirs: True, pause: True}


def test_credentials_of_another_registry_stay_here() -> None:
    """Docker would send what it gets."""
    for server, user in (("https://registry.example", ""), ("https://example.org/v2/", "user")):
        auth = cri.AuthConfig(username="user", password="secret", server_address=server)  # noqa: S106
        ((_, header),) = _authorization(auth, "example.org", "pull it")
        sent = json.loads(base64.urlsafe_b64decode(header))
        assert (sent["username"], sent["serveraddress"]) == (user, "example.org")
        assert bool(sent["password"]) is bool(user)


# containers


class Events:
    """Notes the events of containers."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def started(self, _: DockerContainer) -> None:
        """A start."""
        self.told.append("started")

    def stopped(self, _: DockerContainer) -> None:
        """An end."""
        self.told.append("stopped")


class Life:
    """A container, and what becomes of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.docker = MemoryDocker()
        self.events = Events()
        clock: Clock = Simulation(1).clock
        self.processes = DockerProcesses(self.docker.client, cast("Any", None), clock, cast("Any", self.events))
        record = ContainerRecord(clock.now_ns())
        self.container = DockerContainer(ContainerId("c"), tmp_path, cri.CreateContainerRequest(), record)

    def answer(self, **state: object) -> None:
        """Let Docker tell a state from now on."""
        self.docker.objects["/containers/c/json"] = {"Id": "c", "State": state}


@pytest.fixture
def life(tmp_path: Path) -> Life:
    """A created container."""
    return Life(tmp_path)


_TIMES = {"StartedAt": "1970-01-01T00:00:02Z", "FinishedAt": "1970-01-01T00:00:05Z"}
_NEVER = "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("state", "run", "exit_"),
    [
        ({"Running": True, "Pid": 7, **_TIMES, "FinishedAt": _NEVER}, Run(7, 2 * _SECOND), None),
        ({"Running": True, "Pid": 7, **_TIMES}, Run(7, 2 * _SECOND), None),
        (_TIMES, Run(0, 2 * _SECOND), Exit(0, 5 * _SECOND, "Completed", "")),
        ({"ExitCode": 3, **_TIMES}, Run(0, 2 * _SECOND), Exit(3, 5 * _SECOND, "Error", "")),
        ({"ExitCode": 137, "OOMKilled": True, **_TIMES}, Run(0, 2 * _SECOND), Exit(137, 5 * _SECOND, "OOMKilled", "")),
        ({"ExitCode": 1, "OOMKilled": True, **_TIMES}, Run(0, 2 * _SECOND), Exit(1, 5 * _SECOND, "Error", "")),
        ({"StartedAt": _NEVER, "FinishedAt": _NEVER}, None, None),
    ],
)
def test_the_state_of_a_container_is_dockers(
    life: Life, state: dict[str, object], run: Run | None, exit_: Exit | None
) -> None:
    """A start and an end are told once, also of one that has ended before anybody looked."""
    life.answer(**state)
    for _ in range(2):
        life.processes.refresh(life.container)
    assert (life.container.run, life.container.exit) == (run, exit_)
    assert life.events.told == [*(["started"] if run else []), *(["stopped"] if exit_ else [])]


def test_a_container_that_docker_could_not_start_has_ended(life: Life) -> None:
    """Also when its answer to the start was lost."""
    life.answer(ExitCode=127, Error="no such file", StartedAt=_NEVER, FinishedAt=_NEVER)
    life.processes.refresh(life.container)
    found = life.container.exit
    assert found is not None
    assert (found.exit_code, found.reason, found.message) == (128, "StartError", "no such file")
    assert life.events.told == ["stopped"]


def test_a_start_without_an_answer_is_not_known_to_have_failed(life: Life) -> None:
    """Docker may have started the container; one that it refuses to start has ended."""
    life.docker.errors["POST /containers/c/start"] = DockerUnreachableError("start it", "no answer")
    with pytest.raises(DockerUnreachableError):
        life.processes.start(life.container)
    assert (life.container.exit, life.events.told) == (None, [])
    life.docker.errors["POST /containers/c/start"] = RunFailedError("start it", "no such file")
    for _ in range(2):  # its end was seen meanwhile
        with pytest.raises(RunFailedError):
            life.processes.start(life.container)
    assert life.container.exit is not None
    assert (life.container.exit.reason, life.events.told) == ("StartError", ["stopped"])


def test_a_container_that_somebody_has_removed_has_ended(life: Life) -> None:
    """Its exit code is not known, once for all."""
    for _ in range(2):
        life.processes.refresh(life.container)
    assert life.container.exit is not None
    assert (life.container.exit.exit_code, life.container.exit.reason) == (255, "Unknown")
    assert life.events.told == ["stopped"]


def test_an_end_that_two_threads_notice_is_one(life: Life) -> None:
    """An event of Docker's, and the comparison after a lost connection."""
    life.answer(**_TIMES)
    life.processes.refresh(life.container)
    first = life.container.exit
    life.processes._end(life.container, Exit(255, 0, "Unknown", "it is not there"))
    assert (life.container.exit, life.events.told) == (first, ["started", "stopped"])


def test_docker_is_not_asked_about_a_container_that_has_ended(life: Life) -> None:
    life.container.finished(Exit(0, 1, "Completed", ""))
    life.processes.refresh(life.container)
    assert life.docker.asked == []


def test_a_container_whose_log_is_missing_in_docker_ends(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for it would wait for ever."""
    gone = NoSuchObjectError("read the log", "no such container")
    monkeypatch.setattr("modules.runtimes.docker.processes.catch_up", Failing(0, gone).call(print))
    monkeypatch.setattr(life.container, "log_path", "0.log", raising=False)
    life.container.started(Run(7, 1))
    life.processes._end(life.container, Exit(0, 2, "Completed", ""))
    assert (life.container.exit, life.events.told) == (Exit(0, 2, "Completed", ""), ["stopped"])


def test_a_log_that_is_followed_is_not_followed_twice(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life.container, "log_path", "0.log", raising=False)
    life.container.follower = cast("Any", "one")
    life.processes._follow(life.container)
    assert life.container.follower == "one"


def test_the_log_of_a_container_that_has_ended_is_not_followed(life: Life) -> None:
    """The follower would hold its connection, and write to a closed file, as long as Docker keeps the stream open."""
    done, container = list[str](), life.container
    container.log = cast("Any", SimpleNamespace(close=lambda: done.append("closed")))
    container.follower = cast("Any", SimpleNamespace(stop=lambda: done.append("stopped")))
    life.answer(**_TIMES)
    life.processes.refresh(container)
    assert done == ["closed", "stopped"]


_RUNS: dict[str, Run | None] = {"waiting": None, "running": Run(1, 1), "begun": None, "gone": Run(2, 1)}


def test_after_a_lost_connection_everything_is_compared() -> None:
    """A container without a record goes, unless its creation may be under way; one that waits for its start stays, and
    one whose start had no answer has begun.
    """
    clock = Simulation(1).clock
    now = int(clock.now())
    listed = [
        ListedContainer(id="lost", state="exited", created=now - 700),
        ListedContainer(id="new", state="created", created=now - 500),
        ListedContainer(id="waiting", state="created", created=now - 5000),
        ListedContainer(id="running", state="running", created=now - 5000),
        ListedContainer(id="begun", state="running", created=now - 5000),
    ]
    done: list[str] = []
    containers = [SimpleNamespace(id=name, run=run) for name, run in _RUNS.items()]
    known = {each.id: each for each in containers}
    driver = SimpleNamespace(
        _listed=lambda: listed,
        _clock=clock,
        _docker=SimpleNamespace(call=lambda method, path, *_: done.append(f"{method} {path}")),
        _sandboxes=SimpleNamespace(holders_are=lambda running: done.append(f"holders {sorted(running)}")),
        _registry=SimpleNamespace(
            containers=lambda: containers, find_container=known.get, find_sandbox=lambda _id: None
        ),
        _processes=SimpleNamespace(refresh=lambda container: done.append(f"refresh {container.id}")),
    )
    driver._remove_unknown = lambda which: DockerDriver._remove_unknown(cast("Any", driver), which)
    DockerDriver.compare(cast("Any", driver))
    refreshed = ["refresh running", "refresh begun", "refresh gone"]
    assert done == ["DELETE /containers/lost", "holders ['begun', 'running']", *refreshed]


# the connection


class Connection:
    """Docker's events: pieces of its stream, and then an error."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.is_closed = False

    def piece(self) -> bytes:
        """Return the next piece."""
        if not self._pieces:
            raise HttpError(502, "it broke off")
        return self._pieces.pop(0)

    def close(self) -> None:
        """Close it."""
        self.is_closed = True


def _watch(stream: Callable[[], Connection], compare: Callable[[], None], ended: list[str]) -> DockerWatch:
    docker = SimpleNamespace(
        negotiate=lambda: None,
        stream=lambda *_: stream(),
        unreachable=lambda attempt, error: DockerUnreachableError(attempt, str(error)),
    )
    driver = SimpleNamespace(compare=compare, ended=ended.append)
    return DockerWatch(cast("Any", docker), {}, cast("Any", driver))


def test_states_are_unknown_until_all_were_compared() -> None:
    """Events are heard from before the comparison on, in whatever pieces they come."""
    told: list[str] = []
    connection = Connection(b'{"Action": "die", "Actor": {"ID": "a"}}\n{"Act', b'or": {"ID": "b"}}\nnoise\n{}\n')

    def compare() -> None:
        told.append("compared")
        with pytest.raises(DockerUnreachableError):
            watch.settle()

    watch = _watch(lambda: connection, compare, told)
    watch._lost(DockerUnreachableError("follow", "not yet"))
    with pytest.raises(DockerUnreachableError, match="not yet"):
        watch.settle()
    assert watch._follow()
    assert told == ["compared", "a", "b"]
    assert connection.is_closed
    with pytest.raises(DockerUnreachableError, match="broke off"):
        watch.settle()


def test_a_failed_comparison_leaves_states_unknown() -> None:
    """Nobody knows which containers have ended."""
    connection, ended = Connection(), list[str]()

    def compare() -> None:
        raise DockerUnreachableError("compare", "it is stopping")

    watch = _watch(lambda: connection, compare, ended)
    assert watch._follow()
    assert connection.is_closed
    with pytest.raises(DockerUnreachableError, match="it is stopping"):
        watch.settle()


# users


def _refused(files: dict[str, bytes], image_user: str = "", **security: Any) -> str:
    docker = MemoryDocker()
    docker.objects = {path: tar(file(Path(path).name, content)) for path, content in files.items()}
    context = cri.LinuxContainerSecurityContext(supplemental_groups=security.pop("groups", ()))
    for name, number in security.items():
        getattr(context, name).value = number
    try:
        refuse_numbers_as_names(docker.client, "c", context, image_user, "create it")
    except BadRequestError as error:
        return error.reason
    return ""


def test_numbers_that_are_names_of_others_are_refused() -> None:
    """Of users and all kinds of groups; names are Docker's affair, and a number may be the name of itself."""
    passwd, group = b"1000:x:0:0::/:/bin/sh\n7:x:7:0::/:/bin/sh\n8\n", b"2000:x:0:\n"
    files = {"/etc/passwd": passwd, "/etc/group": group}
    assert '"1000"' in _refused(files, run_as_user=1000)
    assert '"1000"' in _refused(files, "1000")
    assert '"2000"' in _refused(files, run_as_user=5, run_as_group=2000)
    assert '"2000"' in _refused(files, "5:2000")
    assert '"2000"' in _refused(files, run_as_user=5, groups=[3, 2000])
    assert '"8"' in _refused(files, run_as_user=8)
    assert _refused(files, "web:log") == _refused(files, run_as_user=7) == _refused({}, run_as_user=1000) == ""
    assert _refused(files, "1000:2000", run_as_user=5) == ""


@pytest.mark.parametrize("target", ["../users", "/users", "/etc/../users"])
def test_the_files_of_users_may_be_links(target: str) -> None:
    """Docker follows them in the image, and so must the check; what is no file is refused."""
    docker = MemoryDocker()
    security = cri.LinuxContainerSecurityContext()
    security.run_as_user.value = 1000

    def refuse() -> None:
        refuse_numbers_as_names(docker.client, "c", security, "", "create it")

    docker.objects = {"/etc/passwd": tar(symlink("passwd", target)), "/users": tar(file("users", b"1000:x:0:0:\n"))}
    with pytest.raises(BadRequestError, match='the name "1000"'):
        refuse()
    docker.objects["/users"] = tar(symlink("users", "/etc/passwd"))
    with pytest.raises(BadRequestError, match="is no file"):
        refuse()
    docker.objects["/users"] = tar(directory("users"))
    with pytest.raises(BadRequestError, match="is no file"):
        refuse()
    docker.objects["/users"] = b"damaged"
    with pytest.raises(BadRequestError, match="cannot be read"):
        refuse()
