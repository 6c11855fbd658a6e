"""`backup` and `restore` of a node and of a cloud that do not run."""

import io
import os
import re
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from modules.processes.cloudcore.cli import main as cloudcore
from modules.processes.common.backup.archive import Part, write_archive
from modules.processes.common.backup.commands import head_of
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.backup.node import CONFIGURATION
from modules.processes.edgecore.cli import main as edgecore
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.ownership import lock_root_directory
from tests.edgehub.certificates.authority import Authority, key_pem

AUTHORITY = Authority()
CERTIFICATE, KEY = AUTHORITY.certificate.public_bytes(Encoding.PEM), key_pem(AUTHORITY.key)


def make_node(root: Path, name: str = "n1", value: str = "one") -> Path:
    """Make the files that a node leaves."""
    text = re.sub(r"hostnameOverride: .*", f"hostnameOverride: {name}", render(EdgeCoreConfig.below(root)))
    (root / "certs").mkdir(parents=True)
    (root / "manifests").mkdir()
    (root / "edgecore.yaml").write_text(text)
    for each in ("manifests/p.yaml", "manifests/.hidden"):
        (root / each).write_text(value)
    (root / "certs/rootCA.crt").write_bytes(CERTIFICATE)
    (root / "certs/server.crt").write_bytes(CERTIFICATE)
    (root / "certs/server.key").write_bytes(KEY)
    write_database(root / "edgecore.db", value)
    return root


def write_database(path: Path, value: str) -> None:
    """Make a database with a value, and a log that belongs to it."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS t (a)")
        database.execute("CREATE TABLE IF NOT EXISTS meta (key)")
        database.execute("INSERT INTO meta VALUES ('null/store/complete'), ('default/pod/web')")
        database.execute("DELETE FROM t")
        database.execute("INSERT INTO t VALUES (?)", (value,))


def value_in(path: Path) -> str:
    """Return the value in a database."""
    with closing(sqlite3.connect(path)) as database:
        return str(database.execute("SELECT a FROM t").fetchone()[0])


def do(command: str, file: Path, root: Path, *more: str) -> int:
    """Run a command of edgecore."""
    return edgecore([command, str(file), "--root", str(root), *more])


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is as it was; the state in between is kept; what the backup does not know stays."""
    root, file = make_node(tmp_path / "n"), tmp_path / "b.tgz"
    assert do("backup", file, root) == ExitCode.OK
    for path in (root / "certs").iterdir():
        path.write_text("two")
    (root / "edgecore.yaml").write_text((root / "edgecore.yaml").read_text() + "\n# changed since\n")
    (root / "manifests/q.yaml").write_text("two")
    write_database(root / "edgecore.db", "two")
    assert do("restore", file, root) == ExitCode.OK
    assert value_in(root / "edgecore.db") == "one"
    assert [(root / "certs" / each).read_bytes() for each in ("server.crt", "server.key")] == [CERTIFICATE, KEY]
    assert "# changed since" not in (root / "edgecore.yaml").read_text()
    assert (root / "certs/server.key").stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(root / "edgecore.db")) as database:
        keys = database.execute("SELECT key FROM meta").fetchall()
    assert keys == [("default/pod/web",)], "newer pods may run, so it has not all for sure"
    (kept,) = root.glob("edgecore.db.before-restore-*Z")
    assert value_in(kept) == "two"
    assert {path.name[:3] for path in (root / "manifests").iterdir() if path.name[0] != "."} == {"p.y", "q.y"}
    said = capsys.readouterr()
    assert "certs/server.key" in said.out
    assert f"kept: {kept}" in said.out
    assert "the node's secrets" in said.err


def test_on_a_new_machine(tmp_path: Path) -> None:
    """The configuration in the backup says where everything belongs; the root has only to be the same."""
    root, file = make_node(tmp_path / "n"), tmp_path / "b.tgz"
    assert do("backup", file, root, "--exclude-keys") == ExitCode.OK
    root.rename(tmp_path / "gone")
    assert do("restore", file, root) == ExitCode.OK
    assert value_in(root / "edgecore.db") == "one"
    assert not (root / "certs/server.key").exists()


def test_another_node_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its name is in the message; `--force` restores it."""
    one, file = make_node(tmp_path / "one"), tmp_path / "b.tgz"
    assert do("backup", file, one) == ExitCode.OK
    two = make_node(tmp_path / "two", "n2", "two")
    assert do("restore", file, two) == ExitCode.NOT_DONE
    assert "the backup is of another node: n1 (here is n2; --force" in capsys.readouterr().err
    assert value_in(two / "edgecore.db") == "two"


def test_files_of_others_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration in a backup can name any file of the machine."""
    one, file = make_node(tmp_path / "one"), tmp_path / "b.tgz"
    assert do("backup", file, one) == ExitCode.OK
    assert do("restore", file, tmp_path / "other") == ExitCode.NOT_DONE
    assert f"files that are not this node's: {one}" in capsys.readouterr().err
    assert not (tmp_path / "other" / "edgecore.yaml").exists()
    assert do("restore", file, tmp_path / "other", "--force") == ExitCode.OK


def with_values(root: Path, **changes: str) -> str:
    """The configuration of a node with other values."""
    text = render(EdgeCoreConfig.below(root))
    for key, value in changes.items():
        text, number = re.subn(rf"^( *{key}:) .*$", rf"\1 {value}", text, count=1, flags=re.MULTILINE)
        assert number == 1, key
    return text


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("tlsCaFile", "etc/ld.so.preload"),
        ("tlsPrivateKeyFile", "etc/cron.d/evil"),
        ("dataSource", "etc/profile.d/evil.sh"),
        ("staticPodPath", "etc/cron.d"),
        ("rootDirectory", "etc/edged"),
        ("tlsCertFile", "n/link/evil"),
    ],
)
def test_new_files_elsewhere_are_not_made(
    key: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without a node, too; each is named. A person may confirm them, or say `--force`."""
    root, file, evil = make_node(tmp_path / "n"), tmp_path / "b.tgz", tmp_path / place
    assert do("backup", file, root) == ExitCode.OK
    replace_configuration(file, with_values(root, hostnameOverride="n1", **{key: str(evil)}))
    root.rename(tmp_path / "gone")
    (tmp_path / "elsewhere").mkdir()
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    assert do("restore", file, root) == ExitCode.NOT_DONE
    assert str(evil) in capsys.readouterr().err
    assert sorted(tmp_path.glob("etc/**/*")) == sorted((tmp_path / "elsewhere").iterdir()) == []
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert do("restore", file, root) == ExitCode.NOT_DONE
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert do("restore", file, root) == ExitCode.OK
    assert f"outside of the node's directories: {evil}" in capsys.readouterr().out
    assert evil.exists()


class Terminal(io.StringIO):
    """A person who answers."""

    def isatty(self) -> bool:
        return True


def replace_configuration(file: Path, text: str) -> None:
    """Replace the configuration in a backup by another that fits."""
    with tarfile.open(file) as tar:
        parts = [Part(each.name, tar.extractfile(each).read()) for each in tar][1:]  # type: ignore[union-attr]
    file.unlink()
    named = [Part(name, text.encode() if name == CONFIGURATION else content) for name, content in parts]
    write_archive(file, head_of("edgecore", "n1"), named)


@pytest.mark.parametrize("name", ["certs/rootCA.crt", "certs/server.crt", "certs/server.key"])
def test_other_files_than_certificates_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, file = make_node(tmp_path / "n"), tmp_path / "b.tgz"
    (root / name).write_text("* * * * * root evil")
    assert do("backup", file, root) == ExitCode.OK
    assert do("restore", file, root) == ExitCode.NOT_DONE
    assert name in capsys.readouterr().err
    assert do("restore", file, root, "--force") == ExitCode.OK


def test_a_full_disk_is_found_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was written then, of a node and of a cloud."""
    root, file = make_node(tmp_path / "n"), tmp_path / "b.tgz"
    assert do("backup", file, root) == ExitCode.OK
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(0, 0, 1 << 20))
    assert do("restore", file, root) == ExitCode.NOT_DONE
    assert "1 are free; nothing was changed" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


def test_a_running_node_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backup of it is not."""
    root, file = make_node(tmp_path / "n"), tmp_path / "b.tgz"
    with ExitStack() as stack:
        lock_root_directory(root / "edged", stack)
        assert do("backup", file, root) == ExitCode.OK
        assert do("restore", file, root, "--force") == ExitCode.NOT_DONE
    assert f"process {os.getpid()} has it" in capsys.readouterr().err


@pytest.mark.parametrize("program", [edgecore, cloudcore], ids=["edgecore", "cloudcore"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["backup", "b.tgz", "--root", "empty"], "there is nothing to back up"),
        (["restore", "missing", "--root", "empty"], "cannot read the backup: missing"),
        (["restore", ".", "--root", "empty"], "it is a directory, not a file"),
    ],
)
def test_errors(
    program: Callable[[list[str]], int],
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line each; nothing is left behind but the directory of the node or the cloud."""
    monkeypatch.chdir(tmp_path)
    assert program(arguments) == ExitCode.NOT_DONE
    assert words in capsys.readouterr().err
    assert {path.name for path in tmp_path.rglob("*")} <= {"empty"}


def test_a_database_of_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has tools of its own, and its password is not shown."""
    (tmp_path / "edgecore.yaml").write_text(
        "database: {dataSource: 'postgresql://me:hunter2@h/d'}\nmodules: {edged: {enable: true}}\n"
    )
    assert do("backup", tmp_path / "b.tgz", tmp_path) == ExitCode.NOT_DONE
    assert (
        cloudcore(["backup", str(tmp_path / "c.tgz"), "--database", "postgresql://me:hunter2@h/d"]) == ExitCode.NOT_DONE
    )
    said = capsys.readouterr().err
    assert said.count("pg_dump") == 2
    assert "hunter2" not in said


def test_a_cloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Database and authority; a node's backup is refused."""
    root, file = tmp_path / "cloud", tmp_path / "b.tgz"
    (root / "tls").mkdir(parents=True)
    for name in ("ca.crt", "ca.key", "server.crt", "server.key"):
        (root / "tls" / name).write_text("one")
    write_database(root / "cloudcore.db", "one")
    with closing(sqlite3.connect(root / "cloudcore.db")) as database, database:
        database.execute("CREATE TABLE cluster_state (revision)")
        database.execute("CREATE TABLE cluster_objects (revision, body)")
        database.execute("INSERT INTO cluster_state VALUES (7)")
    assert cloudcore(["backup", str(file), "--root", str(root)]) == ExitCode.OK
    write_database(root / "cloudcore.db", "two")
    (root / "tls" / "ca.key").write_text("two")
    assert cloudcore(["restore", str(file), "--root", str(root)]) == ExitCode.OK
    assert value_in(root / "cloudcore.db") == "one"
    assert (root / "tls" / "ca.key").read_text() == "one"
    assert (root / "tls" / "ca.key").stat().st_mode & 0o777 == 0o600
    assert do("restore", file, tmp_path / "n") == ExitCode.NOT_DONE
    assert "it is of cloudcore, not of edgecore" in capsys.readouterr().err


def test_a_mistyped_directory_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_node(tmp_path / "n")
    assert do("backup", tmp_path / "typo" / "b.tgz", root) == ExitCode.NOT_DONE
    assert f"there is no directory {tmp_path / 'typo'}" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
