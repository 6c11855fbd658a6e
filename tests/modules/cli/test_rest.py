"""The client of an API server, with a server that answers as a test wants."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock, Mock, call

import pytest

from modules.apimachinery.kinds import Kind
from modules.cli import rest
from modules.cli.errors import KubectlError, StatusError, TimedOutError, UnreachableError
from modules.cli.rest import RestClient, object_path, path_of, status_error
from tests.support.failing import Failing
from tests.support.ports import free_port


@contextmanager
def answering(path: Path, *answers: bytes) -> Iterator[list[bytes]]:
    """A server that gives each connection the next answer, and keeps what it was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    asked.append(_request(connection))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def _request(connection: socket.socket) -> bytes:
    """Return the head and the body of a request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")), 0)
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode() + body


def test_a_request_and_its_answer(tmp_path: Path) -> None:
    with answering(tmp_path / "s", http(b'{"a": 1}')) as asked:
        found = RestClient(tmp_path / "s").request("PATCH", path_of("api", "v 1"), [("a", "b c")], {"x": "ü"}, "x/y")
    assert found == {"a": 1}
    head, body = asked[0].split(b"\r\n\r\n")
    assert head.startswith(b"PATCH /api/v%201?a=b+c HTTP/1.1\r\n")
    assert b"Content-Type: x/y" in head
    assert body == '{"x":"ü"}'.encode()


def test_long_socket_names(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    (tmp_path / "s").symlink_to(directory)
    with answering(tmp_path / "s" / "n", http(b"{}")):
        assert RestClient(directory / "n").get("/") == {}


def test_a_tcp_address() -> None:
    address = ("127.0.0.1", free_port())
    with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{address[1]}: .*refused .is it there.."):
        RestClient(address, "is it there?").get("/")


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r": No such file or directory \(does it run\?\)"):
        RestClient(tmp_path / "s", "does it run?").get("/")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            http(b'{"kind": "Status", "reason": "NotFound", "message": "pods \\"x\\" not found"}', "404 Not Found"),
            'Error from server (NotFound): pods "x" not found',
        ),
        (http(b'{"kind": "Status", "message": "no"}', "403 Forbidden"), "Error from server: no"),
        (http(b"plain\n  text\n", "500 Oh"), "Error from server: plain text"),
        (http(b"one of many", "300 Multiple Choices"), "Error from server: one of many"),
        (http(b"", "503 Busy"), "Error from server: the server answered with status 503"),
        (
            http(
                b'{"kind": "Status", "reason": "Invalid", "message": "long", "details": {"kind": "Pod", "name": "w",'
                b' "causes": [{"field": "spec.a", "message": "Required"}, {"message": "other\\nin two lines"}, 7]}}',
                "422 Unprocessable",
            ),
            'The Pod "w" is invalid: spec.a: Required; <nil>: other; in two lines',
        ),
        (
            http(b'{"kind": "Status", "reason": "Invalid", "message": "m", "details": {"kind": "Pod"}}', "422 U"),
            'The Pod "" is invalid: m',
        ),
    ],
)
def test_refusals(tmp_path: Path, answer: bytes, line: str) -> None:
    with answering(tmp_path / "s", answer), pytest.raises(StatusError) as refused:
        RestClient(tmp_path / "s").get("/")
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(b"[]"), "not a JSON object"),
        (http(b"{"), "not JSON"),
        (http(b"[" * 100_000), "not JSON"),
        (b"nonsense", "broke off"),
        (b"", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "broke off"),
    ],
)
def test_answers_that_cannot_be_read(tmp_path: Path, answer: bytes, said: str) -> None:
    with answering(tmp_path / "s", answer), pytest.raises(KubectlError, match=said):
        RestClient(tmp_path / "s").get("/")


def test_answers_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "_MOST_BYTES", 10)
    monkeypatch.setattr(rest, "_LONGEST_LINE", 10)
    long = http(b'{"a": "0123456789"}\n')
    with answering(tmp_path / "s", http(b'{"a": 100}'), long, long):
        assert RestClient(tmp_path / "s").get("/") == {"a": 100}
        with pytest.raises(KubectlError, match="ask for fewer"):
            RestClient(tmp_path / "s").get("/")
        with pytest.raises(KubectlError, match="a line of the answer"):
            list(RestClient(tmp_path / "s").lines("/"))


@pytest.mark.parametrize(
    ("status", "sent", "said"),
    [
        ("200 OK", b"0123456789ab", "ask for fewer"),
        ("200 OK", b"0123456789", "broke off in the middle"),
        ("500 Oh", b"0123456789ab", "0123456789$"),
    ],
)
def test_no_more_of_an_answer_is_read_than_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, sent: bytes, said: str
) -> None:
    """The rest would be waited for, and never comes."""
    monkeypatch.setattr(rest, "_MOST_BYTES", 10)
    monkeypatch.setattr(rest, "_MOST_OF_AN_ERROR", 10)
    answer = f"HTTP/1.1 {status}\r\nContent-Length: {1 << 40}\r\n\r\n".encode() + sent
    with answering(tmp_path / "s", answer), pytest.raises(KubectlError, match=said):
        RestClient(tmp_path / "s").get("/")


def test_a_name_is_one_part_of_a_path() -> None:
    assert path_of("api", "v1", "../a b") == "/api/v1/..%2Fa%20b"


@pytest.mark.parametrize(
    ("kind", "names", "path"),
    [
        (Kind("Pod", "v1", "pods"), ("a", "web"), "/api/v1/namespaces/a/pods/web"),
        (Kind("Pod", "v1", "pods"), (), "/api/v1/pods"),
        (Kind("Job", "batch/v1", "jobs"), ("a",), "/apis/batch/v1/namespaces/a/jobs"),
        (Kind("Node", "v1", "nodes", namespaced=False), ("default", "n"), "/api/v1/nodes/n"),
    ],
)
def test_only_objects_in_namespaces_have_theirs_in_the_path(kind: Kind, names: tuple[str, ...], path: str) -> None:
    assert object_path(kind, *names) == path


def test_warnings_are_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = http(
        b"{}", "200 OK", 'Warning: 299 - "be \\"careful\\""', "Warning: 110 - stale", 'Warning: 299 - "\x1b[2J"'
    )
    with answering(tmp_path / "s", answer, answer):
        client = RestClient(tmp_path / "s")
        client.get("/")
        client.get("/")
    assert capsys.readouterr().err.splitlines() == ['Warning: be "careful"', "Warning: \\x1b[2J"]


def test_a_refusal_has_its_warnings_printed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = http(b"{}", "404 Not Found", 'Warning: 299 - "old"')
    with answering(tmp_path / "s", refused), pytest.raises(StatusError):
        RestClient(tmp_path / "s").get("/")
    assert capsys.readouterr().err == "Warning: old\n"


def test_lines_as_they_come(tmp_path: Path) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (b'{"a":', b"1}\n\n{}", b"\n"))
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    with answering(tmp_path / "s", answer) as asked:
        assert list(RestClient(tmp_path / "s").lines("/x", [("watch", "true")])) == [b'{"a":1}\n', b"{}\n"]
    assert asked[0].startswith(b"GET /x?watch=true ")


def test_lines_that_do_not_come(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        lines = RestClient(tmp_path / "s").lines("/", ends=0.0)

        def serve(done: threading.Event) -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                done.wait()

        done = threading.Event()
        thread = threading.Thread(target=serve, args=(done,))
        thread.start()
        with pytest.raises(TimedOutError):
            next(lines)
        done.set()
        thread.join()


def test_a_refusal_that_comes_before_the_whole_body_was_read(tmp_path: Path) -> None:
    refusal = http(b'{"kind": "Status", "reason": "RequestEntityTooLarge", "message": "too large"}', "413 Too Large")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(refusal)
                connection.shutdown(socket.SHUT_RD)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(StatusError, match="too large"):
            RestClient(tmp_path / "s").request("POST", "/", body=b"x" * 4_000_000)
        thread.join()


def test_a_status_of_an_odd_form_is_a_refusal_all_the_same() -> None:
    assert status_error(400, b'{"kind": "Status", "details": 7, "reason": 8}').reason == "8"
    assert len(status_error(400, b"[" * 100_000).line) == len("Error from server: ") + 1000
    assert status_error(400, b'{"a": 1}').line == 'Error from server: {"a": 1}'
    odd = b'{"kind": "Status", "reason": "Invalid", "details": 7, "message": "m"}'
    assert status_error(422, odd).line.endswith("m")


def mocked(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> tuple[RestClient, MagicMock]:
    """A client, and its connection, which has an answer."""
    client, connection = RestClient(Path("s")), MagicMock()
    answer = connection.getresponse.return_value.__enter__.return_value
    answer.status, answer.read.return_value, answer.readline.return_value = status, body, b""
    answer.headers.get_all.return_value = []
    monkeypatch.setattr(client, "_connected", lambda: connection)
    return client, connection


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_refusal_outlives_the_end_of_its_request(monkeypatch: pytest.MonkeyPatch, error: type[OSError]) -> None:
    client, connection = mocked(monkeypatch, 413, b"too large")
    connection.request.side_effect = error
    with pytest.raises(StatusError, match="too large"):
        client.request("POST", "/", body=b"x")


@pytest.mark.parametrize(("ends", "limits"), [(None, [None]), (0.0, [None, 0.001])])
def test_a_watch_is_silent_as_long_as_it_likes(
    monkeypatch: pytest.MonkeyPatch, ends: float | None, limits: list[float | None]
) -> None:
    """The limit of other answers ends no watch, and its own limit ends it in time."""
    client, connection = mocked(monkeypatch, 200, b"")
    assert list(client.lines("/", ends=ends)) == []
    assert connection.sock.settimeout.call_args_list == [*map(call, limits)]


def test_the_connection_of_a_request_that_fails_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, connection = RestClient(tmp_path, "start it"), Mock(request=Failing(0).call(print))
    monkeypatch.setattr(client, "_connected", lambda: connection)
    with pytest.raises(UnreachableError):
        client.get("/")
    connection.close.assert_called_once_with()


def test_causes_that_are_none_are_left_out() -> None:
    details = {"kind": "Pod", "name": "a", "causes": ["x", {"field": "f", "message": "m"}, 7, None]}
    assert StatusError(422, "Invalid", "all", details).line == 'The Pod "a" is invalid: f: m'
