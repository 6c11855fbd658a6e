"""The command line: output streams, exit statuses, and imports."""

import subprocess
import sys
import types
from contextlib import ExitStack
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.version import VERSION
from modules.processes.edgecore import cli
from modules.processes.edgecore.config import PROCESS_ENDPOINT, EdgeCoreConfig, load, loads, reference
from modules.processes.edgecore.config_commands import saver
from modules.processes.edgecore.runtime_choice import keep_runtime
from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[5]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[EdgeCoreConfig, str]]:
    """Stands in for the assembly; what it was called with."""
    calls: list[tuple[EdgeCoreConfig, str]] = []

    def run(
        config: EdgeCoreConfig,
        *,
        log_level: cli.LogLevel,
        log_format: cli.LogFormat,
        record: Path | None,
        starting: ExitStack,
    ) -> int:
        starting.close()
        calls.append((config, log_level))
        assert (record, log_format) == (None, cli.LogFormat.TEXT)
        return ExitCode.STOP_TIMED_OUT

    process = types.ModuleType("modules.processes.edgecore.process")
    monkeypatch.setattr(process, "run", run, raising=False)
    monkeypatch.setitem(sys.modules, "modules.processes.edgecore.process", process)
    return calls


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Program, the build where it is known, KubeEdge, configuration form, CRI, Python."""
    assert cli.main(["version"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"edgecore {VERSION}"
    said = [line.split(" ")[0] for line in lines[1:] if not line.startswith("build: ")]
    assert said == ["KubeEdge:", "configuration:", "container", "Python"]


@pytest.mark.parametrize("command", ["default", "minimal"])
def test_printed_files_pass_the_check(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config default > f; config check f` says that f is usable."""
    assert cli.main(["config", command]) == ExitCode.OK
    file = tmp_path / "edgecore.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert cli.main(["config", "check", str(file)]) == ExitCode.OK
    assert capsys.readouterr().out == f"{file}: usable (warnings: 0, keys set without effect: 0)\n"


def test_check_names_errors_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them on standard output, and the status says that the file cannot be used."""
    file = tmp_path / "edgecore.yaml"
    file.write_text("kind: X\nfoo: 1\nmodules: {edged: {workers: 0}}\n", encoding="utf-8")
    assert cli.main(["config", "check", str(file)]) == ExitCode.CONFIGURATION
    assert capsys.readouterr().out.splitlines() == [
        f'error: {file}:1: kind: got "X", want "EdgeCore"',
        f"error: {file}:3: modules.edged.workers: got 0, want an integer, 1 to 64",
        f"warning: {file}:2: foo: unknown key, ignored",
    ]


def test_check_names_keys_without_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As notes: the file is usable."""
    file = tmp_path / "edgecore.yaml"
    file.write_text("modules: {streamRuleEndpoint: {enable: true}}\n", encoding="utf-8")
    assert cli.main(["config", "check", str(file)]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        f"note: {file}:1: modules.streamRuleEndpoint.enable: accepted, has no effect in this edgecore",
        f"{file}: usable (warnings: 0, keys set without effect: 1)",
    ]


def test_run_with_a_file(
    started: list[tuple[EdgeCoreConfig, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The assembly gets the file's settings; its status is the command's; remarks go to standard error."""
    file = tmp_path / "edgecore.yaml"
    file.write_text("modules: {streamRuleEndpoint: {enable: true}, edged: {workers: 3}}\n", encoding="utf-8")
    assert cli.main(["run", "--config", str(file), "--log-level", "debug"]) == ExitCode.STOP_TIMED_OUT
    assert started == [(load(file).config, "debug")]
    assert "keys without effect: 1" in capsys.readouterr().err


def test_run_without_a_file_needs_nothing(
    started: list[tuple[EdgeCoreConfig, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The embedded settings, below the directory given or the user's state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    directories = [tmp_path / "r", tmp_path / "edgecore"]
    for each in directories:
        keep_runtime(each, PROCESS_ENDPOINT)
    cli.main(["run", "--root", str(directories[0])])
    cli.main(["run"])
    wanted = [EdgeCoreConfig.below(each) for each in directories]
    assert [config for config, _ in started] == wanted


def test_root_must_say_that_anybody_may_be_root(
    started: list[tuple[EdgeCoreConfig, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`sudo edgecore run` without a configuration ran commands of any process that listened on port 10000, as root."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cli.main(["run", "--root", str(tmp_path)]) == ExitCode.CONFIGURATION
    assert started == []
    said = capsys.readouterr().err
    assert "whoever answers on ws://127.0.0.1:10000 would be root here" in said
    assert "--allow-unisolated-root" in said
    assert "[unisolated-root]" in said
    keep_runtime(tmp_path, PROCESS_ENDPOINT)
    cli.main(["run", "--root", str(tmp_path), "--allow-unisolated-root"])
    assert [config for config, _ in started] == [EdgeCoreConfig.below(tmp_path)]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("modules: {edged: {tailoredKubeletConfig: {containerRuntimeEndpoint: 'embedded://'}}}", "started"),
        (
            "modules: {edgeHub: {websocket: {server: 'ws://127.0.0.1:1'}}, edged: {tailoredKubeletConfig: "
            "{containerRuntimeEndpoint: 'embedded://'}}}",
            "refused",
        ),
        (
            "modules: {edgeHub: {websocket: {server: 'ws://127.0.0.1:1'}}, edged: {allowUnisolatedRoot: true, "
            "tailoredKubeletConfig: {containerRuntimeEndpoint: 'embedded://'}}}",
            "started",
        ),
        ("modules: {edgeHub: {websocket: {server: 'ws://127.0.0.1:1'}}}", "started"),
        (
            "modules: {edgeHub: {enable: false, websocket: {server: 'ws://127.0.0.1:1'}}, edged: "
            "{tailoredKubeletConfig: {containerRuntimeEndpoint: 'embedded://'}}}",
            "started",
        ),
    ],
    ids=["TLS", "plain", "allowed", "containerd", "no cloud"],
)
def test_only_all_three_together_are_refused_to_root(
    text: str, status: str, started: list[tuple[EdgeCoreConfig, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process runtime, a cloud without TLS, and root."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    file = tmp_path / "edgecore.yaml"
    file.write_text(text, encoding="utf-8")
    code = cli.main(["run", "--config", str(file)])
    assert (bool(started), code == ExitCode.CONFIGURATION) == (status == "started", status == "refused")


@pytest.mark.parametrize("arguments", [["--config", "/no/such/file"], ["--root", "/" + "x" * 120]])
def test_run_with_a_wrong_configuration_starts_nothing(
    arguments: list[str], started: list[tuple[EdgeCoreConfig, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Status CONFIGURATION, the reason on standard error."""
    assert cli.main(["run", *arguments]) == ExitCode.CONFIGURATION
    assert started == []
    assert capsys.readouterr().err.startswith("edgecore: error: ")


def test_a_user_without_a_home_must_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other commands work all the same."""

    def no_home(_path: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", no_home)
    assert cli.main(["run"]) == ExitCode.CONFIGURATION
    assert cli.main(["version"]) == ExitCode.OK


@pytest.mark.parametrize("arguments", ["config", "run --config a --root b", "run --log-level x", "images rm x"])
def test_usage_errors(arguments: str) -> None:
    """End with argparse's status, which is USAGE."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments.split())
    assert caught.value.code == ExitCode.USAGE


def test_the_name_alone_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl does."""
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == ExitCode.OK
    assert capsys.readouterr().out.startswith("usage: edgecore ")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("images load x.tar", 'unknown command "load"; did you mean import?'),
        ("devices histroy", 'unknown command "histroy"; did you mean history?'),
        ("config xyzzy", 'unknown command "xyzzy"; there are default, minimal, check, set'),
    ],
)
def test_an_unknown_command_below_a_command(arguments: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the commands that mean the same or are like it, else all."""
    with pytest.raises(SystemExit):
        cli.main(arguments.split())
    assert f"error: {answer} (see `edgecore " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ["version", "config default", "run --config /no/such/file"])
def test_nothing_heavy_is_imported(arguments: str) -> None:
    """Version and configuration answer without the bus, gRPC, the database or asyncio."""
    heavy = ("grpc", "sqlalchemy", "websockets", "google", "pykka", "asyncio", "beehive", "email", "http", "ssl")
    code = (
        "import sys; from modules.processes.edgecore.cli import main; main(sys.argv[1:]);"
        f"sys.exit(','.join(sorted(name for name in {heavy!r} if name in sys.modules)) or 0)"
    )
    command = [sys.executable, "-c", code, *arguments.split()]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`edgecore config default | head -1` prints no traceback."""
    command = [sys.executable, "-m", "modules.processes.edgecore", "config", "default"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == ExitCode.OK


def test_documentation_is_up_to_date() -> None:
    """`docs/configuration.md` is what the structs say; `--check` says so by its status."""
    assert reference.main(["--check"]) == 0


def test_check_of_the_documentation_can_fail(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An old file is named together with the command that renews it; the command does."""
    old = tmp_path / "configuration.md"
    old.write_text("old", encoding="utf-8")
    monkeypatch.setattr(reference, "TARGET", old)
    assert reference.main(["--check"]) == 1
    assert "is out of date: run `python -m" in capsys.readouterr().err
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0


def test_exit_codes_are_documented() -> None:
    """Each status stands in docs/doctor.md with its name, and none that does not exist."""
    rows = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8").splitlines()
    cells = [row.split("|")[1:3] for row in rows if row.startswith("| ") and row[2].isdigit()]
    documented = [(int(number), name.strip(" `")) for number, name in cells]
    assert documented == [(code.value, code.name) for code in ExitCode]


def test_a_profile_is_printed_as_a_file_that_can_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    """What differs from the defaults is in the file, so nobody need know what stands behind a name."""
    assert cli.main(["config", "default", "--profile", "saver"]) == 0
    config = loads(capsys.readouterr().out).config
    assert config == saver(EdgeCoreConfig.default()) != EdgeCoreConfig.default()
    assert config.modules.edge_hub.heartbeat < 30, "the cloud ends a session 30 s after the last keepalive"
