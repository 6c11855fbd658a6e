"""`support-bundle` of a node and of a cloud: what is in it, what is not, and when it is refused."""

import json
import os
import re
import shutil
import tarfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from msgspec import structs

from beehive import RealClock
from beehive.trace.format import (
    FORMAT,
    Change,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    Record,
    RecordedMessage,
    StoreCommit,
    TimerFired,
    TraceHeader,
)
from beehive.trace.reader import read
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter
from metamanager.sqlite_open import open_file
from modules.processes.cloudcore.cli import main as cloudcore
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.support_bundle import bundle, machine
from modules.processes.common.support_bundle.bundle import SupportPart, make_bundle
from modules.processes.common.support_bundle.cleaning import write_clean
from modules.processes.edgecore.cli import main as edgecore
from tests.support.failing import Failing, PlannedError, census
from tests.support.own_node import write_node

TOKEN, BROKER, STORED, VARIABLE = "t0ken-of-join", "br0ker-password", "s3cret-of-the-cloud", "v4lue-of-a-pod"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
SECRET = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "czNjcmV0LW9mLXRoZS1jbG91ZA=="}}
POD = {
    "metadata": {"name": "web", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": VARIABLE}},
    "spec": {"containers": [{"name": "c", "command": ["serve"], "env": [{"name": "A", "value": VARIABLE}]}]},
}
JOURNAL = f"""#!/bin/sh
case "$*" in
*--dmesg*) echo "2026-11-01 kernel: Out of memory: Killed process 7 (web)"; echo "usb 1-1: new device" ;;
*) echo "pull failed: {STORED}, https://me:hidden@registry.example/v2, {KEY.splitlines()[0]}"
   echo "MIIEvQIBADANBg"; echo "{KEY.splitlines()[2]}" ;;
esac
"""


class Made(NamedTuple):
    """A bundle that was written."""

    file: Path
    status: int

    def members(self) -> dict[str, str]:
        """Return the members by name, in their order."""
        with tarfile.open(self.file) as tar:
            found = {member.name: tar.extractfile(member) for member in tar}
            return {name: file.read().decode() for name, file in found.items() if file is not None}


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a journalctl before the machine's."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "journalctl").write_text(JOURNAL)
    (programs / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


def node_with_secrets(root: Path) -> None:
    """Make a node whose configuration and store have secrets."""
    write_node(root)
    text = (root / "edgecore.yaml").read_text()
    for name, setting in (("token", TOKEN), ("mqttPassword", BROKER), ("mqttUsername", "edge")):
        text = re.sub(rf'^( *{name}:) ""$', rf"\1 {setting}", text, flags=re.MULTILINE)
    (root / "edgecore.yaml").write_text(text)
    assert TOKEN in text
    assert BROKER in text
    with closing(open_file(root / "edgecore.db")) as database, database:
        for key, kind, value in (("default/secret/s", "secret", SECRET), ("default/pod/web", "pod", POD)):
            database.execute(
                "INSERT INTO meta (key, type, value, namespace) VALUES (?, ?, ?, 'default')",
                (key, kind, json.dumps(value)),
            )


def made(directory: Path, *more: str, root: Path | None = None) -> Made:
    """Write the bundle of a node."""
    file = directory / "support.tar.gz"
    return Made(file, edgecore(["support-bundle", "-o", str(file), "--root", str(root or directory / "n"), *more]))


def test_no_secret_is_in_it(tmp_path: Path, journal: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither of the configuration, nor of the store, nor of what the log has said of either."""
    node_with_secrets(tmp_path / "n")
    written = made(tmp_path)
    assert written.status == ExitCode.OK
    members = written.members()
    everything = "\n".join([*members.values(), *capsys.readouterr()])
    for secret in (TOKEN, BROKER, STORED, VARIABLE, "hidden@", "MIIEvQIBADANBg", "czNjcmV0"):
        assert secret not in everything, secret
    assert "pull failed" in members["logs/edgecore.service.txt"]
    assert members["logs/kernel.txt"] == "2026-11-01 kernel: Out of memory: Killed process 7 (web)\n"
    pods = json.loads(members["node/pods.json"])
    (variable,) = pods[0]["spec"]["containers"][0]["env"]
    assert (variable["name"], variable["value"].partition(":")[0]) == ("A", "redacted")
    assert [each["key"] for each in json.loads(members["node/store.json"])] == ["default/pod/web", "default/secret/s"]
    assert "hostnameOverride: n1" in members["node/edgecore.yaml"]


def test_what_is_in_it_is_said_first(tmp_path: Path, journal: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it is gathered; and in the first members of the file, with what is not there and why."""
    write_node(tmp_path / "n")
    written = made(tmp_path)
    said = capsys.readouterr()
    assert said.out.startswith("node/edgecore.yaml: configuration, without tokens and passwords\n")
    members = written.members()
    assert list(members)[:2] == ["manifest.json", "contents.txt"]
    listed = [line.partition(": ")[0] for line in members["contents.txt"].splitlines()]
    assert set(listed) >= set(list(members)[2:])
    assert "node/state.json: not there: cannot reach edgecore" in members["contents.txt"]
    assert "not there: node/state.json" in said.err
    assert written.file.stat().st_mode & 0o777 == 0o600
    assert made(tmp_path).status == ExitCode.NOT_DONE
    assert "cannot write the bundle" in capsys.readouterr().err


def test_a_damaged_database(tmp_path: Path, journal: None) -> None:
    write_node(tmp_path / "n")
    (tmp_path / "n/edgecore.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 64)
    written = made(tmp_path)
    assert written.status == ExitCode.OK
    members = written.members()
    assert "node/pods.json: not there: read the database" in members["contents.txt"]
    assert "FAIL" in members["node/doctor.json"]


def test_a_configuration_that_cannot_be_used(tmp_path: Path, journal: None) -> None:
    """Why is in the bundle, and nothing of its text, which nobody can tell secrets in."""
    (tmp_path / "n").mkdir()
    (tmp_path / "n/edgecore.yaml").write_text(f"modules: {{edgeHub: {{token: [{TOKEN}]}}}}\n")
    written = made(tmp_path, "--no-logs")
    assert written.status == ExitCode.OK
    members = written.members()
    assert "modules.edgeHub.token" in members["problems.txt"]
    assert TOKEN not in "".join(members.values())
    assert not [name for name in members if name.startswith(("node/", "logs/"))]


def test_a_full_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_node(tmp_path / "n")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    written = made(tmp_path, "--no-logs")
    assert written.status == ExitCode.NOT_DONE
    assert "there is no room" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["n"]


@pytest.mark.parametrize("since", ["", "yesterday", "-5m"])
def test_a_duration_that_is_none(since: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_node(tmp_path / "n")
    assert made(tmp_path, f"--since={since}").status == ExitCode.NOT_DONE
    assert "no such duration" in capsys.readouterr().err


def test_a_cloud_that_does_not_run(tmp_path: Path, journal: None) -> None:
    written = Made(
        tmp_path / "c.tar.gz",
        cloudcore(["support-bundle", "-o", str(tmp_path / "c.tar.gz"), "--root", str(tmp_path)]),
    )
    assert written.status == ExitCode.OK
    members = written.members()
    assert {"cloud/doctor.json", "logs/cloudcore.service.txt", "versions.json"} <= set(members)


def parts_of(texts: dict[str, Any]) -> Sequence[SupportPart]:
    """Return parts that have these texts, or fail with these errors."""

    def read(value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return [SupportPart(name, name, lambda value=value: read(value)) for name, value in texts.items()]  # type: ignore[misc]


def test_an_error_of_a_part_tells_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address of a database has its password, and an error may quote it."""
    file = tmp_path / "b.tar.gz"
    texts = {"a": OSError("cannot open postgresql://edge:Tr0ub4dor@db/edge"), "b": "text"}
    make_bundle("edgecore", "n", file, parts_of(texts), Redactor(), RealClock())
    said = Made(file, 0).members()["contents.txt"] + "".join(capsys.readouterr())
    assert ("a: not there: cannot open postgresql://" in said, "Tr0ub4dor" in said) == (True, False)


def test_texts_are_cut_and_large_files_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LARGEST_TEXT", 10)
    monkeypatch.setattr(bundle, "LARGEST_FILE", 10)
    large = tmp_path / "large"
    large.write_bytes(bytes(11))
    file = tmp_path / "b.tar.gz"
    texts = {"a": "x" * 11, "b": large, "c": ValueError("no")}
    make_bundle("edgecore", "n", file, parts_of(texts), Redactor(), RealClock())
    members = Made(file, 0).members()
    assert members["a"] == "x" * 10
    assert "b: not there: " in members["contents.txt"]
    assert "c: not there: no" in members["contents.txt"]
    assert "b" not in members


def test_the_last_part_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LARGEST", 5)
    log = tmp_path / "update.log"
    log.write_text("all")
    assert machine.tail(log) == "all"
    log.write_text("the end")
    assert machine.tail(log) == "e end"


def test_a_command_that_fails_or_says_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LARGEST", 1000)
    assert machine.command(["yes"]) == "y\n" * 500
    with pytest.raises(OSError, match="No such file"):
        machine.command(["/no/such/program"])
    with pytest.raises(OSError, match="`ls`"):
        machine.command(["ls", "/no/such/file"])
    monkeypatch.setattr(machine, "_SECONDS", 0.0)
    with pytest.raises(TimeoutError):
        machine.command(["sleep", "60"])


def test_no_value_is_in_its_trace(tmp_path: Path, journal: None) -> None:
    """Nor in any other part, however it reached the node; the records are all there."""
    write_node(tmp_path / "n")
    pod = marked_pod()
    config_map = {
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "mark-config"},
        "binaryData": {"b": "mark-binary"},
    }
    bare = {name: value for name, value in config_map.items() if name != "kind"}
    key, texts = "default/configmap/c", [json.dumps(each).encode() for each in (pod, config_map, bare)]
    frame = json.dumps({"header": {"msg_id": "1"}, "route": {"resource": key, "operation": "update"}, "content": bare})
    call = {"config": {"envs": [{"key": "A", "value": "mark-variable"}], "annotations": {"a": "mark-annotation"}}}
    message = RecordedMessage(
        id="1", parent_id="", timestamp=0, resourceversion="", sync=False, type="", source="s", destination="d",
        group="g", operation="update", resource="default/pod/web", content=texts[0],
    )  # fmt: skip
    changes = (
        Change("put", key, "configmap", texts[1]),
        Change("put", "default/pod/web", "pod", texts[0]),
        Change("delete", key, "configmap", b""),
    )
    records: list[Record] = [
        Delivered(1.0, 1, 0, 0, "a", "edged", "send", "handled", "", 0, 0.0, 0.0, message),
        Delivered(2.0, 1, 0, 0, "a", "edged", "send", "handled", "", 0, 0.0, 0.0,
                  structs.replace(message, resource=key, content=texts[2])),
        LinkFrame(3.0, 1, 0, 0, Direction.IN, 1, len(frame), frame.encode()),
        StoreCommit(4.0, 1, 0, 0, "commit", 0.0, "", changes),
        CriCall(5.0, 1, 0, 0, "edged", "create_container", json.dumps(call).encode(), b"", "E", "token=mark-form", 0.0),
        CriEvent(6.0, 1, 0, 0, "synced", "u", texts[0]),
        Note(7.0, 1, 0, 0, "failure", "edged", "https://me:mark-url@host/"),
        TimerFired(8.0, 1, 0, 0, "edged", "look", 1.0, periodic=True, handled=0.0),
    ]  # fmt: skip
    traces = tmp_path / "n/edged/traces"
    traces.mkdir(parents=True)
    writer = FileWriter(traces / "a.trace", TraceHeader(FORMAT, "edgecore 1", "n1", 0.0))
    writer.write(records)
    writer.close()
    written = made(tmp_path, "--no-logs")
    with tarfile.open(written.file) as tar:
        member = tar.extractfile("node/flight.trace")
        assert member is not None
        (tmp_path / "kept.trace").write_bytes(member.read())
    with read(tmp_path / "kept.trace") as trace:
        found = list(trace)
    assert [type(each) for each in found] == [type(each) for each in records]
    assert found[-1] == records[-1]
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert b"mark-" not in everything + repr(found).encode()
    assert b"serve --port 80" in repr(found).encode(), "command lines stay"


def test_a_trace_that_cannot_be_cleaned_leaves_no_file_open(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "a.trace", TraceHeader(FORMAT, "edgecore 1", "n1", 0.0))
    writer.write([Note(7.0, 1, 0, 0, "failure", "edged", "text")])
    writer.close()
    before = census()
    redactor: Any = Mock(json=lambda text: text, text=Failing(0).call(print))
    with pytest.raises(PlannedError):
        write_clean(tmp_path / "a.trace", tmp_path / "b.trace", redactor)
    assert not census().more_than(before)


def marked_pod() -> dict[str, Any]:
    """A pod with a marked value in each place where credentials are kept that no Secret has."""
    headers = [{"name": "Authorization", "value": "mark-header"}, {"name": "X", "value": "mark-other"}, "mark-odd"]
    get = {"httpGet": {"path": "/", "port": 80, "httpHeaders": headers}}
    container = {
        "name": "c", "command": ["serve --port 80"], "args": ["--db=postgres://me:mark-login@db/x"],
        "env": [{"name": "A", "value": "mark-variable"}], "livenessProbe": get, "lifecycle": {"preStop": get},
    }  # fmt: skip
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "mark-applied", "a": "mark-annotation"}
    return {
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"containers": [container], "initContainers": [container]},
    }


def test_the_default_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the node and the time; the file is in the current directory."""
    monkeypatch.chdir(tmp_path)
    make_bundle("edgecore", "n1", None, [], Redactor(), RealClock())
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"edgecore-support-n1-[0-9]{8}T[0-9]{6}Z\.tar\.gz", file.name)
