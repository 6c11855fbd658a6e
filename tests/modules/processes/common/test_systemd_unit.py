"""The units that `edgecore unit` and `cloudcore unit` print."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from modules.processes.cloudcore.cli import main as cloudcore
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.systemd_unit import USELESS, Unit, text_of
from modules.processes.edgecore.cli import main as edgecore


def unit(*command: str, user: bool = False, account: str = "") -> str:
    """Return the text of a unit."""
    return text_of(Unit("edgecore", "a node", command, "", user, account))


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/plain/path-1.yaml", "/plain/path-1.yaml"),
        ("a b", '"a b"'),
        ('q"\\', '"q\\"\\\\"'),
        ("50%", '"50%%"'),
        ("$HOME", '"$$HOME"'),
        ("l\nl", '"l\\x0al"'),
        ("ä", '"ä"'),
    ],
)
def test_words_of_the_command_line(word: str, written: str) -> None:
    """systemd reads the word as it was."""
    assert f"ExecStart=/bin/e {written}\n" in unit("/bin/e", word)


def test_the_exit_statuses_that_a_restart_does_not_help() -> None:
    """They equal the documentation's."""
    assert f"{ExitCode.USAGE:d} {ExitCode.CONFIGURATION:d}" == USELESS
    text = Path("docs/doctor.md").read_text()
    assert f"RestartPreventExitStatus={USELESS}" in text


def test_a_user_has_another_target_and_fewer_rights() -> None:
    """Limits and accounts are the system's."""
    system, user = unit("/e", account="me"), unit("/e", user=True)
    assert "WantedBy=multi-user.target" in system
    assert "User=me" in system
    assert "LimitNOFILE" in system
    assert "LimitNPROC=infinity\n" in system, "containers would inherit a limit for all processes of a user"
    assert "WantedBy=default.target" in user
    assert "Limit" not in user
    assert "network-online" not in user


def test_the_node_of_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With absolute paths, whatever the directory is; containers stay, cgroups are delegated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert edgecore(["unit", "--root", "node", "--allow-unisolated-root"]) == ExitCode.OK
    said = capsys.readouterr()
    assert f"run --root {tmp_path}/node --allow-unisolated-root\n" in said.out
    assert "Type=notify\nNotifyAccess=main\nWatchdogSec=" in said.out
    assert "KillMode=process" in said.out
    assert "TimeoutStartSec=600\nTimeoutStopSec=60\n" in said.out, "a start may wait 300 s for an updater"
    assert "Delegate=yes" in said.out
    assert "OOMScoreAdjust" not in said.out
    assert said.err == ""
    (tmp_path / "e.yaml").write_text("modules: {edged: {enable: true}}")
    assert edgecore(["unit", "--config", "e.yaml"]) == ExitCode.OK
    said = capsys.readouterr()
    assert f"run --config {tmp_path}/e.yaml\n" in said.out
    assert "After=network-online.target containerd.service" in said.out
    assert "OOMScoreAdjust=-999" in said.out
    kubelet = "{tailoredKubeletConfig: {containerRuntimeEndpoint: 'embedded://docker'}}"
    (tmp_path / "e.yaml").write_text(f"modules: {{edged: {kubelet}}}")
    assert edgecore(["unit", "--config", "e.yaml"]) == ExitCode.OK
    assert "After=network-online.target docker.service" in capsys.readouterr().out


def test_a_node_that_root_would_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A remark beside the unit, which would fail."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert edgecore(["unit", "--root", str(tmp_path)]) == ExitCode.OK
    assert "root is refused this node" in capsys.readouterr().err


def test_a_wrong_configuration_has_no_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says where."""
    (tmp_path / "edgecore.yaml").write_text("modules: 7")
    assert edgecore(["unit", "--root", str(tmp_path)]) == ExitCode.CONFIGURATION
    said = capsys.readouterr()
    assert said.out == ""
    assert "edgecore.yaml" in said.err


def test_the_cloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the options of `run` behind `--`, and what was not named below the root as it is."""
    assert cloudcore(["unit", "--root", str(tmp_path), "--", "--tls", "--dns-name", "cloud"]) == ExitCode.OK
    (start,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ExecStart="))
    assert re.search(r"\bcloudcore\"? run ", start)
    assert start.endswith(f" run --root {tmp_path} --tls --dns-name cloud")
    assert cloudcore(["unit", "--socket", str(tmp_path / "x.sock")]) == ExitCode.OK
    assert f"run --root {tmp_path} --socket {tmp_path}/x.sock --database {tmp_path}/x.db\n" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("user", [[], ["--user"]])
def test_systemd_accepts_them(user: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a remark."""
    arguments = ["unit", "--root", str(tmp_path / "a b%$"), *user]
    for name, main in (("edgecore", edgecore), ("cloudcore", cloudcore)):
        assert main(arguments) == ExitCode.OK
        file = tmp_path / f"{name}.service"
        file.write_text(capsys.readouterr().out)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *user, file], capture_output=True, text=True, check=False
        )
        about = [line for line in (done.stdout + done.stderr).splitlines() if str(file.name) in line]
        assert about == []
