"""`edgecore join`: what it writes, and that a failure changes nothing."""

import errno
import io
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from beehive import RealClock
from edgehub.certificates import obtain
from edgehub.certificates.certificate import Certificate
from edgehub.certificates.settings import CertificateSettings
from edgehub.errors import UnreachableError
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import cli
from modules.processes.edgecore.config import PROCESS_ENDPOINT, load
from modules.processes.edgecore.config.names import OCI_ENDPOINT
from modules.processes.edgecore.join import CloudAddress, advice_on, joined
from modules.processes.edgecore.runtime_choice import Shortfall, configured_below
from tests.edgehub.certificates.authority import NODE, Authority, CertificateServer
from tests.support.ports import free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CertificateServer]:
    authority = Authority()
    with CertificateServer(authority, authority.server_context(tmp_path)) as running:
        yield running


def join(server: CertificateServer, *more: str, secret: str | None = None, port: int = 10000) -> int:
    """Runs the command; its exit status."""
    given = server.authority.token() if secret is None else secret
    fixed = ["--cloud", f"127.0.0.1:{port}", "--http-server", server.url, "--name", NODE]
    return cli.main(["join", *fixed, "--token", given, *more])


def files(directory: Path) -> set[str]:
    """All files below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("endpoint", [PROCESS_ENDPOINT, OCI_ENDPOINT])
def test_a_new_node(
    server: CertificateServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
) -> None:
    """The file is for the runtime that the machine can have, below the root, names the cloud, has no token, and is its
    owner's alone.
    """
    shortfall = Shortfall("not installed: crun", "apt-get install crun") if endpoint == PROCESS_ENDPOINT else None
    monkeypatch.setattr("modules.processes.edgecore.join.choose_runtime", lambda _: (endpoint, shortfall))
    root = tmp_path / "edge"
    assert join(server, "--root", str(root)) == ExitCode.OK
    assert files(root) == {"edgecore.yaml", "certs/rootCA.crt", "certs/server.crt", "certs/server.key"}
    file = root / "edgecore.yaml"
    loaded = load(file)
    assert loaded.warnings == loaded.without_effect == ()
    wanted = joined(
        configured_below(root, endpoint), CloudAddress("127.0.0.1:10000", server.url), NODE, edge_stream=True
    )
    assert loaded.config == wanted
    assert loaded.config.modules.edge_hub.token == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said, remarks = capsys.readouterr()
    assert ("containers are not isolated: not installed: crun (apt-get install crun)" in remarks) is bool(shortfall)
    assert f"node {NODE}: certificate valid until 20" in said
    assert "logs and commands from the cloud: by a tunnel to 127.0.0.1:10004 (--no-edge-stream: refused)\n" in said
    assert f"next: edgecore run --root {root}\n" in said


def test_a_websocket_that_nobody_serves(
    server: CertificateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node has joined, and the message says that the port may be another."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert join(server, "--root", str(tmp_path / "1"), port=port) == ExitCode.OK
        assert f"warning: nobody answers on 127.0.0.1:{port} (Connection refused)" in capsys.readouterr().err
        listening.listen()
        assert join(server, "--root", str(tmp_path / "2"), port=port) == ExitCode.OK
        assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "option", "enabled"),
    [
        ("", ("--no-edge-stream",), False),
        ("modules: {edgeStream: {enable: false}}\n", (), False),
        ("modules: {edgeStream: {enable: true}}\n", (), True),
        ("modules: {edgeStream: {enable: true}}\n", ("--no-edge-stream",), False),
        ("modules: {edgeStream: {enable: false}}\n", ("--edge-stream",), True),
    ],
)
def test_the_stream_tunnel_is_the_users_choice(
    server: CertificateServer, tmp_path: Path, text: str, option: tuple[str, ...], enabled: bool
) -> None:
    """A new node has it; a file that exists keeps what it says; an option decides."""
    root = tmp_path / "edge"
    if text:
        root.mkdir()
        certificates = {name: f"{root}/{name}" for name in ("tlsCaFile", "tlsCertFile", "tlsPrivateKeyFile")}
        hub = ", ".join(f"{key}: {path}" for key, path in certificates.items())
        (root / "edgecore.yaml").write_text(text.replace("modules: {", f"modules: {{edgeHub: {{{hub}}}, "))
    assert join(server, "--root", str(root), *option) == ExitCode.OK
    assert load(root / "edgecore.yaml").config.modules.edge_stream.enable is enabled


def test_a_new_node_of_a_named_file_has_the_tunnel_as_well(
    server: CertificateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeEdge's default is another."""
    default = configured_below(tmp_path, PROCESS_ENDPOINT)
    stream = msgspec.structs.replace(default.modules.edge_stream, enable=False)
    default = msgspec.structs.replace(default, modules=msgspec.structs.replace(default.modules, edge_stream=stream))
    monkeypatch.setattr("modules.processes.edgecore.join._configured", lambda *_: default)
    assert join(server, "--config", str(tmp_path / "new.yaml")) == ExitCode.OK
    assert load(tmp_path / "new.yaml").config.modules.edge_stream.enable


def test_an_existing_file_keeps_its_settings(server: CertificateServer, tmp_path: Path) -> None:
    """Only the cloud, the name and the token change; the old file is kept."""
    file = tmp_path / "edgecore.yaml"
    text = (
        f"modules:\n  edgeHub: {{heartbeat: 7, token: old, tlsCaFile: {tmp_path}/a, tlsCertFile: {tmp_path}/b, "
        f"tlsPrivateKeyFile: {tmp_path}/c}}\n  edged: {{workers: 9}}\n"
    )
    file.write_text(text)
    file.chmod(0o640)
    assert join(server, "--config", str(file)) == ExitCode.OK
    config = load(file).config
    assert (config.modules.edge_hub.heartbeat, config.modules.edged.workers) == (7, 9)
    assert config.websocket_url.startswith("wss://127.0.0.1:10000/")
    assert config.modules.edge_hub.token == ""
    assert config.node_name == NODE
    assert (tmp_path / "c").exists()
    former = tmp_path / "edgecore.yaml.before-join"
    assert former.read_text() == text
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (file, former)]
    assert modes == [0o600, 0o640], "it may hold a password, and had this mode before"


def test_a_change_between_the_read_and_the_lock_is_not_undone(
    server: CertificateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `edgecore config set`, whose setting the new file would lack. The token is not used."""
    file, root = tmp_path / "edgecore.yaml", tmp_path / "certs"
    text = (
        f"modules:\n  edgeHub: {{tlsCaFile: {root}/a, tlsCertFile: {root}/b, tlsPrivateKeyFile: {root}/c}}\n"
        "  edged: {workers: 9}\n"
    )
    file.write_text(text)

    def changes_of(*_: object) -> list[object]:
        file.write_text(text.replace("9", "8"))
        return []

    monkeypatch.setattr("modules.processes.edgecore.join.changes_of", changes_of)
    assert join(server, "--config", str(file)) == ExitCode.NOT_JOINED
    assert "has just been changed" in capsys.readouterr().err
    assert (file.read_text(), root.exists()) == (text.replace("9", "8"), False)


def test_there_is_a_file_at_every_moment(
    server: CertificateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the machine stops before the new one is in its place."""
    file = tmp_path / "edgecore.yaml"
    text = (
        f"modules:\n  edgeHub: {{heartbeat: 7, tlsCaFile: {tmp_path}/a, tlsCertFile: {tmp_path}/b, "
        f"tlsPrivateKeyFile: {tmp_path}/c}}\n"
    )
    file.write_text(text)
    replace = Path.replace

    def stops(path: Path, target: Path) -> Path:
        if target == file:
            raise OSError(errno.EIO, "stopped", str(file))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stops)
    assert join(server, "--config", str(file)) == ExitCode.NOT_JOINED
    assert file.read_text() == text


@pytest.mark.parametrize("options", [(), ("--replace",)])
def test_another_machine_takes_the_name_only_where_that_is_asked_for(
    server: CertificateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    asked = list[bool]()
    obtained = obtain.join

    def noted(settings: CertificateSettings, clock: RealClock) -> Certificate:
        asked.append(settings.replace)
        return obtained(msgspec.structs.replace(settings, replace=False), clock)

    monkeypatch.setattr(obtain, "join", noted)
    assert join(server, "--root", str(tmp_path / "edge"), *options) == ExitCode.OK
    assert asked == [bool(options)]


def test_the_token_from_standard_input(
    server: CertificateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it need not be in the command line."""
    monkeypatch.setattr("sys.stdin", io.StringIO(server.authority.token() + "\n"))
    dash = "-"
    assert join(server, "--root", str(tmp_path / "edge"), secret=dash) == ExitCode.OK


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("nonsense", "is malformed"),
        (Authority().token(), "the cloud's CA is not the token's"),
        ("expired", "the token has expired: at 2001-09-09"),
        ("refused", "answered 401"),
    ],
)
def test_a_token_that_does_not_do(
    server: CertificateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, words: str
) -> None:
    """The error says why; no file is made but for a key that was sent, and the token is not shown."""
    if case == "refused":
        server.refusal = 401, "no"
    given = {"expired": server.authority.token(1e9), "refused": server.authority.token()}.get(case, case)
    root = tmp_path / "edge"
    assert join(server, "--root", str(root), secret=given) == ExitCode.NOT_JOINED
    said = capsys.readouterr().err
    assert words in said
    assert given not in said
    kept = ["server.key.joining"] if case == "refused" else []
    assert [path.name for path in root.rglob("*") if path.is_file()] == kept


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cloud", "a:b:c"],
        ["--cloud", "ws://host:1"],
        ["--cloud", "host:99999"],
        ["--cloud", "host", "--http-server", "ftp://x"],
        ["--cloud", "host", "--http-server", "http://x:1"],
        ["--cloud", "host", "--name", "Not A Name"],
        ["--cloud", "host", "--config", "/dev/null/x"],
    ],
)
def test_wrong_arguments(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status CONFIGURATION or NOT_JOINED, a reason, and nobody is asked."""
    status = cli.main(["join", "--token", "t", "--root", str(tmp_path / "edge"), *arguments])
    assert status in (ExitCode.CONFIGURATION, ExitCode.NOT_JOINED)
    assert capsys.readouterr().err.startswith("edgecore: ")
    assert not (tmp_path / "edge").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cloudcore-ipport=10.0.0.1:10000"], "there is no --cloudcore-ipport here: it is --cloud HOST:PORT"),
        (["--cloud", "host", "--edgenode-name", "n1"], "there is no --edgenode-name here: it is --name NODE"),
        (["--cloud", "host", "--runtimetype=remote"], "`containerRuntimeEndpoint` in the configuration names"),
    ],
)
def test_options_of_keadm(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has what is there in their place."""
    with pytest.raises(SystemExit):
        cli.main(["join", "--token", "t", *words])
    assert says in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_found_before_anybody_is_asked(
    server: CertificateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The token is still good afterwards."""
    with monkeypatch.context() as patched:
        patched.setattr("os.access", lambda path, _mode: Path(path) != tmp_path)
        assert join(server, "--root", str(tmp_path / "edge")) == ExitCode.NOT_JOINED
    assert f"cannot write {tmp_path}: Permission denied" in capsys.readouterr().err
    assert join(server, "--config", "/dev/null/x") == ExitCode.NOT_JOINED
    assert "cannot write /dev/null" in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "server", "url"),
    [
        ("cloud", "cloud:10000", "https://cloud:10002"),
        ("wss://10.0.0.1:443", "10.0.0.1:443", "https://10.0.0.1:10002"),
        ("[fd00::1]:5", "[fd00::1]:5", "https://[fd00::1]:10002"),
    ],
)
def test_the_address_of_the_cloud(text: str, server: str, url: str) -> None:
    """KubeEdge's ports by default."""
    assert CloudAddress.parse(text, None) == (server, url)


@pytest.mark.parametrize(
    ("cause", "text", "words"),
    [
        (ConnectionRefusedError(), "", "nobody listens there: does the cloud run with TLS"),
        (socket.gaierror(), "", "there is no such host"),
        (OSError(), "TLSV13_ALERT_CERTIFICATE_REQUIRED", "that is the websocket's port"),
        (OSError(), "SSL: UNEXPECTED_EOF_WHILE_READING", "a cloud without TLS hands out no certificates"),
        (OSError(), "something else", ""),
    ],
)
def test_advice(cause: OSError, text: str, words: str) -> None:
    """A hint is added for a server that does not issue certificates; complete errors get none."""
    error = UnreachableError("cannot ask", "https://h", text)
    error.__cause__ = cause
    assert words in advice_on(error)
    assert bool(words) == bool(advice_on(error))


def test_nobody_listens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, with what to look at, and nothing is written."""
    url = f"https://127.0.0.1:{free_port()}"
    token = Authority().token()
    fixed = ["--cloud", "127.0.0.1", "--http-server", url, "--token", token]
    assert cli.main(["join", *fixed, "--root", str(tmp_path / "n")]) == ExitCode.NOT_JOINED
    said = [line for line in capsys.readouterr().err.splitlines() if "containers are not isolated" not in line]
    assert len(said) == 1
    assert "cloudcore run --tls" in said[0]
    assert not (tmp_path / "n").exists()
