"""`edgecore store`: what people see of the database, beside a running agent, and what they must not see."""

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beehive import Operation
from metamanager.sqlite_migrations import NEWEST
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.metamanager.support import META, connect, from_cloud, node, thing

PASSWORD = "hunter2-is-the-password"  # noqa: S105
WEB = "default/pod/web"


def secret(password: str, version: int) -> dict[str, Any]:
    encoded = base64.b64encode(password.encode()).decode()
    return thing("s", uid="uid-s", version=version, kind="Secret", data={"password": encoded, "user": "YWRtaW4="})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """Of a node that has got a pod, its update and a secret, twice, and runs still."""
    path = tmp_path / "edgecore.db"
    with node(path) as bee:
        connect(bee)
        for version, image in ((1, "app:1"), (2, "app:2")):
            content = thing("web", version=version, spec={"containers": [{"name": "c", "image": image}]})
            bee.send(META, from_cloud(bee, WEB, Operation.UPDATE, content))
        bee.send(META, from_cloud(bee, "kube-system/configmap/c", Operation.INSERT, thing("c", uid="uid-c")))
        bee.send(META, from_cloud(bee, "default/secret/s", Operation.INSERT, secret(PASSWORD, 1)))
        bee.send(META, from_cloud(bee, "default/secret/s", Operation.UPDATE, secret("another-password", 2)))
        yield path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints."""
    assert main(["store", *arguments]) == ExitCode.OK
    return capsys.readouterr().out


def test_the_objects_are_listed(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All, a kind's, a namespace's; as a table and for programs."""
    where = ("--database", str(database))
    lines = run(capsys, "list", *where).splitlines()
    assert lines[0].split() == ["KEY", "VERSION", "SIZE", "UPDATED"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [WEB, "2"],
        ["default/secret/s", "2"],
        ["kube-system/configmap/c", "1"],
    ]
    assert [line.split()[0] for line in run(capsys, "list", "pod", *where).splitlines()[1:]] == [WEB]
    (only,) = json.loads(run(capsys, "list", "-n", "kube-system", "--json", *where))
    assert (only["key"], only["resourceVersion"]) == ("kube-system/configmap/c", 1)


@pytest.mark.parametrize("word", ["pod", "pods", "po", "Pod"])
def test_a_kind_in_any_form(word: str, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl takes it."""
    lines = run(capsys, "list", word, "--database", str(database)).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [WEB]


def test_a_kind_that_there_is_not(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error with the existing kinds; a possible kind has an empty list."""
    assert main(["store", "list", "bogus", "--database", str(database)]) == ExitCode.START_FAILED
    assert "there is no such kind: bogus (there are: configmap, pod, secret)" in capsys.readouterr().err
    assert len(run(capsys, "list", "services", "--database", str(database)).splitlines()) == 1


def test_an_object_is_shown_as_yaml_or_json(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "image: app:2\n" in run(capsys, "get", WEB, "--database", str(database))
    shown = json.loads(run(capsys, "get", WEB, "--json", "--database", str(database)))
    assert shown["metadata"]["resourceVersion"] == "2"


def test_a_secret_is_shown_to_who_asks_for_it_only(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoded = base64.b64encode(b"another-password").decode()
    arguments = ("get", "default/secret/s", "--database", str(database))
    assert encoded not in run(capsys, *arguments)
    assert encoded in run(capsys, *arguments, "--show-secrets")


def test_the_history_of_an_object_has_times_and_causes(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Oldest first, with the message's id, which traces have too."""
    changes = json.loads(run(capsys, "history", WEB, "--json", "--database", str(database)))
    assert [(one["resourceVersion"], one["cause"], one["deleted"]) for one in changes] == [
        (1, "edgecontroller update", False), (2, "edgecontroller update", False),
    ]  # fmt: skip
    assert all(len(one["message"]) == 36 for one in changes)
    table = run(capsys, "history", "--database", str(database))
    assert table.count("\n") == 6


def test_a_change_is_shown_as_a_diff(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the last two states, or of two given ones."""
    told = run(capsys, "diff", WEB, "--database", str(database))
    assert "-  - name: c\n" not in told
    assert "-    image: app:1\n+    image: app:2\n" in told
    changes = json.loads(run(capsys, "history", WEB, "--json", "--database", str(database)))
    first, second = (str(one["change"]) for one in changes)
    assert "+    image: app:1" in run(capsys, "diff", WEB, second, first, "--database", str(database))
    assert run(capsys, "diff", WEB, first, "--database", str(database)) == told


def test_the_diff_of_a_secret_names_the_changed_key_without_its_values(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else is in the file's history."""
    told = run(capsys, "diff", "default/secret/s", "--database", str(database))
    changed = {line[1:].strip().split(":")[0] for line in told.splitlines()[2:] if line[0] in "+-"}
    assert changed == {"resourceVersion", "password"}
    with closing(sqlite3.connect(database)) as plain:
        kept = plain.execute("SELECT value FROM edgecore_history WHERE key = 'default/secret/s'").fetchall()
    for word in (PASSWORD, "another-password"):
        assert all(base64.b64encode(word.encode()).decode() not in text and word not in text for (text,) in kept)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("get", "default/pod/none"), "not in the store"),
        (("history", "default/pod/none"), "not in the store"),
        (("diff", "kube-system/configmap/c"), "1 is kept"),
        (("diff", WEB, "999"), "not kept"),
    ],
)
def test_missing_objects_are_reported(
    database: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert main(["store", *arguments, "--database", str(database)]) == ExitCode.START_FAILED
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.out == ""


def test_a_file_that_is_no_database_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, no database, of KubeEdge (which has no history), no SQLite."""
    missing, other, kubeedge = tmp_path / "x.db", tmp_path / "y.db", tmp_path / "z.db"
    other.write_text("something else" * 100)
    with closing(sqlite3.connect(kubeedge)) as made:
        made.execute("CREATE TABLE meta (key text(256), type text(32), value text, PRIMARY KEY (key))")
    for path, command, told in (
        (missing, "list", "has edgecore run here"),
        (other, "list", "not a database"),
        (kubeedge, "history", "KubeEdge"),
    ):
        assert main(["store", command, "--database", str(path)]) == ExitCode.START_FAILED
        assert told in capsys.readouterr().err
    assert not missing.exists()


def test_the_database_of_a_node_is_found_by_its_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with node(tmp_path / "edgecore.db") as bee:
        bee.send(META, from_cloud(bee, WEB, Operation.INSERT, thing("web")))
        assert WEB in run(capsys, "list", "--root", str(tmp_path))


def test_a_copy_gets_the_newest_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `edgecore upgrade` tries a version on a copy of the node's database."""
    kubeedge = tmp_path / "z.db"
    with closing(sqlite3.connect(kubeedge)) as made:
        made.execute("CREATE TABLE meta (key text(256), type text(32), value text, PRIMARY KEY (key))")
    assert main(["store", "migrate", str(kubeedge)]) == ExitCode.OK
    assert capsys.readouterr().out == f"schema {NEWEST}\n"
    assert main(["store", "migrate", str(tmp_path / "none")]) == ExitCode.START_FAILED
    assert not (tmp_path / "none").exists()
