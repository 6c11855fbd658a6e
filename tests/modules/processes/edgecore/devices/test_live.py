"""`edgecore devices set|watch` by a running devicetwin, on the owner's socket."""

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from beehive import Hive, Message, Threads
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.router import Router
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import row_of
from metamanager.store import open_store
from modules.edge.devicetwin.feed import DeviceFeed, TwinChange
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.device_commands.live import line_of
from modules.processes.edgecore.owner_routes import DeviceRoutes
from tests.end_to_end.processes import wait_until

DEVICE = {"metadata": {"name": "thermo", "namespace": "default"}, "spec": {
    "deviceModelRef": {"name": "model"}, "properties": [{"name": "threshold", "desired": {"value": "30"}}],
}}  # fmt: skip
MODEL = {"metadata": {"name": "model", "namespace": "default"}, "spec": {
    "properties": [{"name": "threshold", "type": "INT", "maximum": "40"}],
}}  # fmt: skip


def _no_cloud(_to: str, _message: Message, _mode: object) -> bool:
    return True


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The directory of a node with a running devicetwin, and nothing else."""
    store = open_store(str(tmp_path / "edgecore.db"))
    for key, value in (("default/device/thermo", DEVICE), ("default/devicemodel/model", MODEL)):
        store.put(row_of(key, json.dumps(value).encode(), 0))
    store.commit()
    store.close()
    threads, feed = Threads(), DeviceFeed()
    hive = Hive(threads, outside=_no_cloud)
    hive.add(MetaManager, MetaSettings(str(tmp_path / "edgecore.db")))
    hive.add(DeviceTwin, TwinSettings("n1"), feed)
    hive.start()
    (tmp_path / "edged").mkdir()
    routes = Router(DeviceRoutes(hive, feed).routes)
    server = HttpServer(listen_unix(tmp_path / "edged" / "edged.sock"), routes, hive.clock, max_body=1 << 20)
    server.start()
    yield tmp_path
    server.stop()
    hive.stop()
    threads.close()


def _expected(where: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str | None, str | None]:
    """The stored expected value, and who has set it; None before devicetwin has stored the device."""
    if main(["devices", "get", "default/thermo", "--json", *where]) != ExitCode.OK:
        return None, None
    told = json.loads(capsys.readouterr().out).get("properties", {}).get("threshold", {})
    return told.get("expected"), told.get("expectedBy")


def test_a_value_is_set_watched_and_shown_with_its_setter(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--root", str(root)]
    stream = NodeClient(root / "edged" / "edged.sock").stream("/edgecore/devices?device=default/thermo")
    assert isinstance(stream, Generator)
    with closing(stream) as pieces:
        assert next(pieces) == b'{"what":"watching"}\n'
        wait_until(lambda: _expected(where, capsys) == ("30", "cloud"), "devicetwin has stored what the cloud expects")
        assert main(["devices", "set", "default/thermo", "threshold=35", *where]) == ExitCode.OK
        changes = (json.loads(line) for piece in pieces for line in piece.splitlines())
        change = next(each for each in changes if each.get("before") is not None)  # the first ones come from the start
    assert {key: change[key] for key in ("what", "property", "before", "value", "by")} == {
        "what": "desired", "property": "threshold", "before": "30", "value": "35", "by": "devices set",
    }  # fmt: skip
    assert "35 is desired until the cloud desires another" in capsys.readouterr().out
    assert _expected(where, capsys) == ("35", "devices set")
    assert main(["devices", "history", "default/thermo", *where]) == ExitCode.OK
    history = capsys.readouterr().out
    assert "expected by cloud" in history and "expected by devices set" in history
    assert main(["devices", "set", "default/thermo", "threshold-", "-o", "json", *where]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["desired"] == {"threshold": None}
    assert main(["devices", "get", "default/thermo", *where]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[2].split()[2:4] == ["30", "cloud"]


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["default/thermo", "threshold=41"], ExitCode.REFUSED, "INT … to 40"),
        (["default/thermo", "treshold=4"], ExitCode.REFUSED, "threshold"),
        (["default/other", "threshold=4"], ExitCode.REFUSED, "default/thermo"),
        (["a/b/c", "threshold=4"], ExitCode.REFUSED, "NAMESPACE/NAME"),
        (["default/thermo", "threshold"], ExitCode.USAGE, "PROPERTY=VALUE"),
        (["default/thermo", "threshold=1", "threshold=2"], ExitCode.USAGE, "twice"),
    ],
)
def test_a_refusal_has_its_reason(
    root: Path, words: list[str], status: ExitCode, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["devices", "set", *words, "--root", str(root)])
    assert ended.value.code == status and text in capsys.readouterr().err


@pytest.mark.parametrize("words", [["set", "a/b", "c=1"], ["watch"]])
def test_without_edgecore_it_is_reported(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["devices", *words, "--root", str(tmp_path)])
    assert ended.value.code == ExitCode.REFUSED and "edgecore run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (TwinChange("reported", 1_800_000_000_000, "a/b", "t", "2", "1"), "2027-01-15T08:00:00Z a/b t reported 1 → 2"),
        (TwinChange("reported", 0, "a/b", "t", "2", "2"), "1970-01-01T00:00:00Z a/b t reported 2 again"),
        (TwinChange("state", device="a/b", value="online"), "a/b state online"),
        (TwinChange("removed", device="a/b"), "a/b removed"),
        (TwinChange("lost", lost=7), "7 changes were too many to be shown"),
    ],
    ids=["value", "again", "state", "removed", "lost"],
)
def test_a_change_is_a_line(change: TwinChange, line: str) -> None:
    assert line_of(change) == line
