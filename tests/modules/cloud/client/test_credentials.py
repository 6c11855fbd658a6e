"""Credentials of kubeconfigs: tokens, their files, passwords, certificates, and plug-ins."""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from beehive import Clock
from modules.cloud.client.credentials.exec_plugin import MAX_OUTPUT, ExecPlugin, ExecStatus
from modules.cloud.client.credentials.exec_plugin import TIMEOUT as PLUGIN_SECONDS
from modules.cloud.client.credentials.kubeconfig_source import PERIOD, WatchedFile, credential_source
from modules.cloud.client.credentials.source import CredentialSource, RequestCredentials
from modules.cloud.client.http import exchange
from modules.cloud.client.http.transport import HttpTransport
from modules.cloud.client.kubeconfig.model import ClusterEntry, ExecEntry, ExecVariable, Selected, UserEntry
from modules.cloud.client.kubeconfig.reading import KubeconfigError
from modules.cloud.client.transport import ApiRequest
from modules.cloud.client.transport_errors import KubeCredentialsError, KubeDeadlineError
from tests.modules.cloud.client.servers import Client, Heard, ManualClock, Peer, ScriptedServer, client
from tests.support.failing import Failing
from tests.support.patience import PATIENCE

V1 = "client.authentication.k8s.io/v1"
_PLUGIN = """\
import json, os, sys
directory, status = sys.argv[1:]
count = len(os.listdir(directory))
with open(os.path.join(directory, str(count)), "w") as file:
    json.dump([os.environ["KUBERNETES_EXEC_INFO"], os.environ.get("EXTRA"), sys.stdin.read()], file)
version = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
status = json.loads(status.replace("N", str(count)))
print(json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}))
"""


def source_of(clock: ManualClock, cluster: ClusterEntry | None = None, **user: Any) -> CredentialSource:
    """The source of a user."""
    cluster = cluster or ClusterEntry(server="https://host")
    return credential_source(Selected(where="config", cluster=cluster, user=UserEntry(**user)), clock)


def fetched(source: CredentialSource) -> RequestCredentials:
    """The credentials after a fetch."""
    source.fetch()
    credentials = source.current()
    assert credentials is not None
    return credentials


class Plugin:
    """A plug-in that counts its runs."""

    def __init__(self, directory: Path) -> None:
        self.runs = directory / "runs"
        self.runs.mkdir()
        self.script = directory / "plugin.py"
        self.script.write_text(_PLUGIN)

    def entry(self, status: dict[str, Any] | None = None, **fields: Any) -> ExecEntry:
        """The kubeconfig's entry; N in the status is the number of the run."""
        text = json.dumps({"token": "token-N"} if status is None else status)
        arguments = (str(self.script), str(self.runs), text)
        return ExecEntry(**{"command": sys.executable, "api_version": V1, "args": arguments, **fields})

    def ran(self) -> list[tuple[dict[str, Any], str | None, str]]:
        """What each run was given: the information, a variable and its input."""
        given = [json.loads(file.read_text()) for file in sorted(self.runs.iterdir())]
        return [(json.loads(each[0]), each[1], each[2]) for each in given]


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({}, ""),
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "me", "password": "s3"}, "Basic bWU6czM="),
        ({"token": "abc", "username": "me"}, "Bearer abc"),
        ({"token": "abc", "exec": ExecEntry(command="x", api_version=V1)}, "Bearer abc"),
    ],
)
def test_fields_of_the_kubeconfig(user: dict[str, Any], authorization: str) -> None:
    """Tokens come before passwords, both before plug-ins; nothing can be renewed."""
    source = source_of(ManualClock(), **user)
    credentials = source.current()
    assert credentials == RequestCredentials(authorization)
    assert source.current() is credentials
    assert not source.refuse(credentials)
    assert "abc" not in repr(credentials)


def test_what_a_plug_in_has_printed_is_not_shown() -> None:
    assert "abc" not in repr(ExecStatus(**dict.fromkeys(("token", "client_key_data"), "abc")))


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    """When its time changes, when a minute has passed, and after a 401."""
    clock, file = ManualClock(), tmp_path / "token"

    def write(text: str) -> None:
        file.write_text(text)
        os.utime(file, ns=(1, 1))

    write("one\n")
    source = source_of(clock, token_file=str(file), token="other")  # noqa: S106 - of this test
    first = source.current()
    assert first == RequestCredentials("Bearer one")
    write("two\n")
    assert source.current() is first, "neither its time nor its size has changed"
    os.utime(file, ns=(2, 2))
    assert source.current() == RequestCredentials("Bearer two")
    os.utime(file, ns=(1, 1))
    source.current()
    write("six\n")
    clock.go(PERIOD)
    sixth = source.current()
    assert sixth == RequestCredentials("Bearer six")
    write("ten\n")
    assert source.current() is sixth
    assert source.refuse(first)
    assert source.current() is sixth, "others were refused"
    assert source.refuse(sixth)
    assert source.current() == RequestCredentials("Bearer ten")


def test_while_a_token_file_is_being_written_the_last_token_counts(tmp_path: Path) -> None:
    """It is empty, a directory, or not there."""
    file = tmp_path / "token"
    file.write_text("one")
    source = source_of(ManualClock(), token_file=str(file))
    first = source.current()
    assert first == RequestCredentials("Bearer one")
    file.write_text("")
    assert source.current() is first
    file.unlink()
    assert source.current() is first
    file.mkdir()
    assert source.current() is first
    file.rmdir()
    file.write_text("second")
    assert source.current() == RequestCredentials("Bearer second")


def test_a_token_file_that_could_not_be_read_is_read_with_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not only after a minute, as if its new content were known."""
    file = tmp_path / "token"
    file.write_text("one")
    source = source_of(ManualClock(), token_file=str(file))
    source.current()
    file.write_text("second")
    with monkeypatch.context() as failing:
        failing.setattr(WatchedFile, "_read", Failing(0).call(WatchedFile._read))
        assert source.current() == RequestCredentials("Bearer one")
    assert source.current() == RequestCredentials("Bearer second")


def test_a_file_that_shows_no_change_is_read_again_although_the_clock_was_set_back(tmp_path: Path) -> None:
    path, seconds, wall = tmp_path / "token", [0.0], [1e9]
    clock = cast("Clock", SimpleNamespace(monotonic=lambda: seconds[-1], now=lambda: wall[-1]))
    path.write_bytes(b"one")
    file, times = WatchedFile(str(path), "tokenFile", clock), path.stat()
    assert file.content() == b"one"
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    wall.append(0.0)
    for passed, content in ((PERIOD - 1.0, b"one"), (PERIOD, b"two")):
        seconds.append(passed)
        assert file.content() == content


@pytest.mark.parametrize("content", [b"", b" \n", b"two tokens", b"a\nb", b"\xff\xfe", b"x" * 2_000_000])
def test_a_token_file_without_a_token(tmp_path: Path, content: bytes) -> None:
    """It is an error that does not contain what is in the file."""
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(KubeCredentialsError) as raised:
        source_of(ManualClock(), token_file=str(file)).current()
    assert "two tokens" not in str(raised.value)


def test_an_invalid_token_file(tmp_path: Path) -> None:
    """A missing file and a pipe are errors, immediately."""
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("none", "no such file"), ("pipe", "not a regular file")):
        with pytest.raises(KubeCredentialsError) as raised:
            source_of(ManualClock(), token_file=str(tmp_path / name)).current()
        assert words in str(raised.value).lower()


def test_a_certificate_needs_its_key() -> None:
    """Half a pair is an error of the kubeconfig."""
    for user in ({"client_certificate": "a"}, {"client_key_data": b"b"}):
        with pytest.raises(KubeconfigError, match="belong together: set both"):
            source_of(ManualClock(), **user)


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_a_plugin_is_run_once(plugin: Plugin, version: str) -> None:
    """Its token is kept; it gets the interface's version, its variables, and no input."""
    entry = plugin.entry(api_version=version, env=(ExecVariable("EXTRA", "given"),))
    source = source_of(ManualClock(), exec=entry)
    assert source.current() is None
    credentials = fetched(source)
    assert credentials == RequestCredentials("Bearer token-0")
    assert source.current() is credentials
    information = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert plugin.ran() == [(information, "given", "")]


def test_a_plugin_is_run_again(plugin: Plugin) -> None:
    """When its credentials have expired, and when they were refused; not for others that were."""
    clock = ManualClock()
    end = datetime.fromtimestamp(clock.now() + 600, UTC).isoformat().replace("+00:00", "Z")
    source = source_of(clock, exec=plugin.entry({"token": "token-N", "expirationTimestamp": end}))
    credentials = fetched(source)
    clock.go(599.0)
    assert source.refuse(RequestCredentials("Bearer older"))
    assert source.current() is credentials
    assert source.refuse(credentials)
    assert source.current() is None
    assert fetched(source) == RequestCredentials("Bearer token-1")
    clock.go(1.0)
    assert source.current() is None
    with pytest.raises(KubeCredentialsError, match="expired already: check this machine's clock"):
        source.fetch()


def test_a_plugin_may_get_the_clusters_name(plugin: Plugin, tmp_path: Path) -> None:
    """With `provideClusterInfo`; the authority's file is given as data."""
    (tmp_path / "ca").write_bytes(b"abc")
    cluster = ClusterEntry(server="https://host", certificate_authority=str(tmp_path / "ca"), tls_server_name="n")
    fetched(source_of(ManualClock(), cluster, exec=plugin.entry(provide_cluster_info=True)))
    spec = plugin.ran()[0][0]["spec"]
    data = {"server": "https://host", "tls-server-name": "n", "certificate-authority-data": "YWJj", "config": None}
    assert spec == {"interactive": False, "cluster": data}


def test_a_plugin_may_give_a_certificate(plugin: Plugin) -> None:
    """In place of a token."""
    entry = plugin.entry({"clientCertificateData": "C", "clientKeyData": "K"})
    assert fetched(source_of(ManualClock(), exec=entry)) == RequestCredentials("", b"C", b"K")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit(3)", "ended with 3"),
        ("print('secret')", "no ExecCredential as JSON"),
        ("print('{}')", "no ExecCredential of"),
        ("print('[' * 100000)", "no ExecCredential as JSON"),
        ("print('x' * 2000000)", "more than 1048576 bytes"),
    ],
)
def test_a_plugin_that_fails(program: str, words: str) -> None:
    """The error says what is wrong, where, and how to install it; and nothing that was printed."""
    entry = ExecEntry(command=sys.executable, api_version=V1, args=("-c", program), install_hint="Get it\nat x.")
    with pytest.raises(KubeCredentialsError) as raised:
        source_of(ManualClock(), exec=entry).fetch()
    assert words in str(raised.value)
    assert f"config, exec {sys.executable}" in str(raised.value)
    assert str(raised.value).endswith("; Get it\\nat x.)")
    assert "secret" not in str(raised.value)


def test_a_plugin_may_write_null_for_a_field_that_it_leaves_out(plugin: Plugin) -> None:
    """As Go's decoder reads it; plug-ins in other languages write their whole record."""
    status = {"token": "t", "clientCertificateData": None, "clientKeyData": None, "expirationTimestamp": None}
    assert fetched(source_of(ManualClock(), exec=plugin.entry(status))).authorization == "Bearer t"


@pytest.mark.parametrize(
    "status", [{}, {"clientKeyData": "K"}, {"token": "a b"}, {"token": "a", "expirationTimestamp": "x"}]
)
def test_a_plugin_without_credentials(plugin: Plugin, status: dict[str, Any]) -> None:
    """An empty status, half a pair, a malformed token or time."""
    with pytest.raises(KubeCredentialsError):
        source_of(ManualClock(), exec=plugin.entry(status)).fetch()


def test_a_plugin_that_is_not_installed() -> None:
    """The kubeconfig's hint is in the error."""
    entry = ExecEntry(command="no-such-plugin", api_version=V1, install_hint="Run setup.")
    with pytest.raises(KubeCredentialsError, match=r"no directory of PATH has it: install it.*Run setup\."):
        source_of(ManualClock(), exec=entry).fetch()
    entry = ExecEntry(command="/no/such/plugin", api_version=V1)
    with pytest.raises(KubeCredentialsError, match=r"no such file.*install it, or fix its path"):
        source_of(ManualClock(), exec=entry).fetch()


def test_a_plugin_that_may_not_be_executed(tmp_path: Path) -> None:
    (tmp_path / "plugin").touch(mode=0o600)
    entry = ExecEntry(command=str(tmp_path / "plugin"), api_version=V1)
    with pytest.raises(KubeCredentialsError, match="permission denied: let this user execute it"):
        source_of(ManualClock(), exec=entry).fetch()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ""}, "no command"),
        ({"api_version": "client.authentication.k8s.io/v1alpha1"}, "use client.authentication.k8s.io/v1 or"),
        ({"interactive_mode": "Always"}, "needs a terminal"),
    ],
)
def test_an_entry_that_cannot_be_run(fields: dict[str, Any], words: str) -> None:
    """It is an error of the kubeconfig."""
    entry = ExecEntry(**{"command": "x", "api_version": V1, **fields})
    with pytest.raises(KubeconfigError, match=words):
        source_of(ManualClock(), exec=entry)


@pytest.mark.parametrize("closing", [False, True])
def test_a_plugin_that_hangs_is_killed(tmp_path: Path, closing: bool) -> None:
    """After a minute, or when the client is closed; with its children, which hold its output open."""
    os.mkfifo(tmp_path / "begun")
    script = tmp_path / "hang"
    token = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "abc"}}
    answer = f"[ -p \"$1\" ] || {{ echo '{json.dumps(token)}'; exit; }}"
    script.write_text(f'#!/bin/sh\n{answer}\nsleep 1000 &\necho > "$1"\nsleep 1000\n')
    script.chmod(0o700)
    clock = ManualClock()
    source = source_of(clock, exec=ExecEntry(command=str(script), api_version=V1, args=(str(tmp_path / "begun"),)))
    failures: queue.Queue[KubeCredentialsError] = queue.Queue()

    def fetch() -> None:
        try:
            source.fetch()
        except KubeCredentialsError as error:
            failures.put(error)

    thread = threading.Thread(target=fetch)
    thread.start()
    (tmp_path / "begun").read_text()
    if closing:
        source.close()
    else:
        clock.wait_for_timer(PLUGIN_SECONDS)
        clock.go(PLUGIN_SECONDS)
    assert ("within 60 s" in str(failures.get(timeout=PATIENCE))) != closing
    thread.join(PATIENCE)
    if closing:
        with pytest.raises(KubeCredentialsError, match="the client was closed"):
            source.fetch()
    else:  # its next run is in time
        (tmp_path / "begun").unlink()
        assert fetched(source) == RequestCredentials("Bearer abc")


def test_a_plugin_that_prints_too_much_is_not_waited_for() -> None:
    """It goes on for an hour after that."""
    entry = ExecEntry(command="sh", api_version=V1, args=("-c", f"head -c {MAX_OUTPUT + 1} /dev/zero; sleep 3600"))
    with pytest.raises(KubeCredentialsError, match="prints more than"):
        source_of(ManualClock(), exec=entry).fetch()


@pytest.mark.parametrize("error", [ProcessLookupError(), PermissionError()])
def test_a_plugin_that_cannot_be_killed_any_more_is_no_failure(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """It has become another user's, or has ended meanwhile."""
    asked = list[int]()

    def refuse(group: int, _signal: int) -> None:
        asked.append(group)
        raise error

    monkeypatch.setattr(os, "killpg", refuse)
    plugin = SimpleNamespace(_lock=threading.Lock(), _process=SimpleNamespace(pid=7))
    ExecPlugin._kill(cast("ExecPlugin", plugin))
    assert asked == [7]


def test_a_plugin_that_has_ended_is_not_killed(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another process' by then."""
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _signal: killed.append(group))
    source = source_of(ManualClock(), exec=plugin.entry())
    source.fetch()
    source.close()
    assert killed == []


def tokens(peer: Peer, *accepted: str) -> None:
    """A script that answers with each request's token, or 401 for another one."""
    while True:
        head, _ = peer.request()
        token = next((value for key, value in head.headers if key == b"authorization"), b"none").decode()
        peer.answer(200 if token in accepted else 401, token.encode())


def test_a_401_renews_a_plugins_token(plugin: Plugin) -> None:
    """The request is repeated once with what the plug-in gives then; the listener sees one response."""
    with (
        ScriptedServer(lambda peer: tokens(peer, "Bearer token-1")) as server,
        client(f"http://127.0.0.1:{server.port}", UserEntry(exec=plugin.entry())) as api,
    ):
        assert api.ask("/", "POST", body=b"{}") == (200, b"Bearer token-1")
        assert api.ask() == (200, b"Bearer token-1")
        assert len(plugin.ran()) == 2
        assert server.connections == 1


def test_a_401_has_the_token_file_read_again(tmp_path: Path) -> None:
    """A token that was replaced within the file system's resolution of time is found out by the refusal of the old."""
    file = tmp_path / "token"
    file.write_text("old")
    os.utime(file, ns=(1, 1))
    with (
        ScriptedServer(lambda peer: tokens(peer, "Bearer new")) as server,
        client(f"http://127.0.0.1:{server.port}", UserEntry(token_file=str(file))) as api,
    ):
        assert api.ask() == (401, b"Bearer old")
        file.write_text("new")
        os.utime(file, ns=(1, 1))
        assert api.ask("/", "PUT", body=b"{}") == (200, b"Bearer new")


def test_a_second_401_is_the_answer(plugin: Plugin, tmp_path: Path) -> None:
    """Of a plug-in, of a token file, and immediately where nothing can be renewed."""
    file = tmp_path / "token"
    file.write_text("file")
    users = {
        "token-1": UserEntry(exec=plugin.entry()), "file": UserEntry(token_file=str(file)),
        "static": UserEntry(token="static"),  # noqa: S106 - of this test
    }  # fmt: skip
    for token, user in users.items():
        with ScriptedServer(tokens) as server, client(f"http://127.0.0.1:{server.port}", user) as api:
            assert api.ask() == (401, f"Bearer {token}".encode())


def test_requests_wait_for_a_plugin_together(plugin: Plugin) -> None:
    """One run serves all of them."""
    with (
        ScriptedServer(lambda peer: tokens(peer, "Bearer token-0")) as server,
        client(f"http://127.0.0.1:{server.port}", UserEntry(exec=plugin.entry())) as api,
    ):
        started = [api.start() for _ in range(10)]
        assert [each.response()[0] for each in started] == [200] * 10
        assert len(plugin.ran()) == 1


def test_all_requests_hear_why_their_plugin_has_failed() -> None:
    """It is not run for each of them."""
    runs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    entry = ExecEntry(command="no-such-plugin", api_version=V1)
    selected = Selected(where="config", cluster=ClusterEntry(server="http://127.0.0.1:1"), user=UserEntry(exec=entry))
    clock = ManualClock()
    transport = HttpTransport(selected, credential_source(selected, clock), clock, lambda call, _: runs.put(call))
    heard = [Heard() for _ in range(3)]
    for each in heard:
        transport.start(ApiRequest(method="GET", path="/"), each)
    runs.get(timeout=PATIENCE)()
    for each in heard:
        assert isinstance(each.error(), KubeCredentialsError)
    transport.close()
    assert runs.empty()


def test_one_run_of_a_plugin_is_under_way_at_a_time() -> None:
    """However many requests come meanwhile."""
    runs: queue.SimpleQueue[str] = queue.SimpleQueue()
    entry = ExecEntry(command="plugin", api_version=V1)
    selected = Selected(where="config", cluster=ClusterEntry(server="http://127.0.0.1:1"), user=UserEntry(exec=entry))
    clock = ManualClock()
    source = credential_source(selected, clock)
    transport = HttpTransport(selected, source, clock, lambda _, name: runs.put(name))
    for _ in range(2):
        transport.start(ApiRequest(method="GET", path="/"), Heard())
        transport.start(ApiRequest(method="GET", path="/", timeout=1.0), late := Heard())
        clock.wait_for_timer(1.0)
        clock.go(1.0)
        assert isinstance(late.error(), KubeDeadlineError)
    transport.close()
    assert [runs.get(), runs.empty()] == ["kube-client/credentials", True]


def test_a_request_whose_credentials_cannot_be_had_keeps_no_others_waiting() -> None:
    """Both that come in one turn hear the reason."""
    with client("http://127.0.0.1:1", UserEntry(token_file="/nothing")) as api:  # noqa: S106 - no password
        others = [Heard(), Heard()]

        class First(Heard):
            def on_error(self, error: Exception) -> None:
                for other in others:
                    api.transport.start(ApiRequest(method="GET", path="/"), other)
                super().on_error(error)

        first = First()
        api.transport.start(ApiRequest(method="GET", path="/"), first)
        for heard in (first, *others):
            assert isinstance(heard.error(), KubeCredentialsError)


def test_requests_fail_with_their_plugin() -> None:
    """Each listener hears why, and nothing is sent."""
    entry = ExecEntry(command="no-such-plugin", api_version=V1)
    with client("http://127.0.0.1:1", UserEntry(exec=entry)) as api:
        for error in [heard.error() for heard in (api.start(), api.start("/", "POST"))]:
            assert isinstance(error, KubeCredentialsError)
            assert not error.is_unanswered


class Refusing:
    """A source without credentials at first, some of which the server refuses."""

    def __init__(self, *tries: RequestCredentials | KubeCredentialsError) -> None:
        self._tries = list(tries)
        self._current: RequestCredentials | None = None
        self.is_closed = False

    def current(self) -> RequestCredentials | None:
        """See `CredentialSource`."""
        return self._current

    def fetch(self) -> None:
        """Take the next try."""
        found = self._tries.pop(0)
        if isinstance(found, KubeCredentialsError):
            raise found
        self._current = found

    def refuse(self, _credentials: RequestCredentials) -> bool:
        """Fetch others."""
        self._current = None
        return True

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


@contextmanager
def refusing(port: int, *tries: RequestCredentials | KubeCredentialsError) -> Iterator[tuple[Client, Refusing]]:
    """A transport whose credentials come from a `Refusing`, fetched on the transport's own thread."""
    clock, source = ManualClock(), Refusing(*tries)
    selected = Selected(where="test", cluster=ClusterEntry(server=f"http://127.0.0.1:{port}"), user=UserEntry())
    transport = HttpTransport(selected, source, clock, lambda call, _: transport._post(call))
    yield Client(transport, clock), source
    transport.close()


_NONE: Final = KubeCredentialsError("cannot get credentials for the API server", "config", "of this test")


def test_after_credentials_that_could_not_be_had_they_are_fetched_for_the_next_request() -> None:
    """And closed with the client: a plug-in may be under way."""
    with (
        ScriptedServer(lambda peer: tokens(peer, "Bearer a")) as server,
        refusing(server.port, _NONE, RequestCredentials("Bearer a")) as (api, source),
    ):
        assert isinstance(api.start().error(), KubeCredentialsError)
        assert api.ask() == (200, b"Bearer a")
        assert not source.is_closed
    assert source.is_closed


def test_a_request_that_was_refused_and_cannot_be_repeated_was_not_carried_out() -> None:
    """A creation that is known not to have happened may be repeated by its caller."""
    with (
        ScriptedServer(tokens) as server,
        refusing(server.port, RequestCredentials("Bearer a"), _NONE) as (api, _source),
    ):
        error = api.start("/", "POST", body=b"{}").error()
        assert isinstance(error, KubeCredentialsError)
        assert not error.is_unanswered


def test_the_body_of_a_refusal_leaves_the_answer_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two may be as long as one together."""
    monkeypatch.setattr(exchange, "MAX_BODY", 10)

    def long(peer: Peer) -> None:
        for status in (401, 200):
            peer.request()
            peer.answer(status, b"x" * 9)

    tries = RequestCredentials("Bearer a"), RequestCredentials("Bearer b")
    with ScriptedServer(long) as server, refusing(server.port, *tries) as (api, _source):
        assert api.ask() == (200, b"x" * 9)
