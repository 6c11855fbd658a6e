"""What is kept for the cloud on the disk: the file, and the module with it over restarts and failures."""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Message, encode
from beehive.files.damaged import all_set_aside
from beehive.trace.entries import EntrySink
from beehive.trace.format import Note
from beehive.trace.redact import Redactor
from edgehub.counters import Refusal
from edgehub.errors import OutboxError
from edgehub.outbox.manager import EVENT_SECONDS
from edgehub.outbox.recording import OUTBOX, OutboxEntry, recording
from edgehub.outbox.sqlite import _CREATE, SqliteOutbox, _runs, open_outbox
from edgehub.outbox.store import OpenOutbox, OutboxStore, StoredMessage
from edgehub.settings import Limit, Limits
from tests.edgehub.beds import Bed
from tests.edgehub.messages import message
from tests.support.collector import without_collections


def upload(name: str) -> Message:
    """A message that nobody else keeps."""
    return message(f"default/device/{name}", "upload", name)


def kept(serial: int, sent: Message | None = None, accepted: int = 1_800_000_000_000) -> StoredMessage:
    """A row."""
    return StoredMessage(serial, accepted, encode(sent or upload(str(serial))))


# The file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of an outbox that is not there yet."""
    return tmp_path / "outbox.db"


def test_a_change_that_fails_in_any_way_lets_the_next_one_begin(tmp_path: Path) -> None:
    """SQLite would refuse a transaction within one, and nothing would be kept until edgecore starts again."""
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as store:
        with pytest.raises(ZeroDivisionError):
            store.change((kept(1 // each) for each in (1, 0)), [])
        store.change([kept(2)], [])
        assert [one.serial for one in store.load()] == [2]


def test_the_table_equals_the_first_releases(tmp_path: Path) -> None:
    """Byte for byte: an outbox that one release has made is opened by the next."""
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as store:
        schema = store._connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    columns = "serial INTEGER NOT NULL, accepted BIGINT NOT NULL, frame BLOB NOT NULL, PRIMARY KEY (serial)"
    assert schema == [("outbox", f"CREATE TABLE outbox ( {columns} )")]


def test_changes_are_there_when_the_outbox_is_opened_again(tmp_path: Path) -> None:
    """Puts, replacements and removals in one change."""
    path = tmp_path / "state" / "outbox.db"
    with closing(SqliteOutbox(path)) as store:
        store.change([kept(1), kept(2), kept(3)], [])
        store.change([kept(2, upload("other"))], [1, 99])
    with closing(SqliteOutbox(path)) as store:
        assert [(one.serial, b"other" in one.frame) for one in store.load()] == [(2, True), (3, False)]
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}


def test_many_rows_are_written_and_removed_together(tmp_path: Path) -> None:
    """However their number splits into statements, and whichever are removed."""
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as store:
        store.change([kept(number) for number in range(1, 152)], [])
        store.change([kept(7, upload("new"))], [*range(149, 90, -1), 3, 5, 4, 5, 80, 999])
        left = {one.serial: b'"new"' in one.frame for one in store.load()}
    gone = {*range(91, 150), 3, 4, 5, 80}
    assert left == {number: number == 7 for number in range(1, 152) if number not in gone}


@given(st.sets(st.integers(1, 12)))
def test_rows_removed_together_are_no_others(gone: set[int]) -> None:
    assert {serial for first, last in _runs(gone) for serial in range(first, last + 1)} == gone


def test_rows_come_in_the_order_of_their_serials_for_any_clock(tmp_path: Path) -> None:
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as store:
        store.change([kept(2, accepted=1_000), kept(1, accepted=2_000)], [])
        assert [one.serial for one in store.load()] == [1, 2]


def test_every_change_is_flushed(tmp_path: Path) -> None:
    """Write-ahead log, `synchronous=FULL`."""
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as store:
        pragma = [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragma == ["wal", 2]


@pytest.mark.parametrize("is_earlier", [False, True])
def test_the_room_of_removed_rows_is_given_back(path: Path, *, is_earlier: bool) -> None:
    """At the next start. A file that an earlier version has made is rewritten once."""
    large = StoredMessage(1, 1_800_000_000_000, bytes(500_000))
    if is_earlier:
        with closing(sqlite3.connect(path, isolation_level=None)) as earlier:
            earlier.execute("PRAGMA journal_mode=WAL")
            earlier.execute(_CREATE)
            earlier.execute("INSERT INTO outbox VALUES (1, 1, zeroblob(500000))")
            earlier.execute("INSERT INTO outbox VALUES (2, 2, x'00')")
    with closing(SqliteOutbox(path)) as store:
        store.change([] if is_earlier else [large, kept(2)], [1])
    with closing(SqliteOutbox(path)) as store:
        assert [one.serial for one in store.load()] == [2]
    assert path.stat().st_size < 100_000


class _Full(sqlite3.Connection):
    """On a disk without room for a second file."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "VACUUM":
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *parameters)


def test_a_file_of_an_earlier_version_that_cannot_be_rewritten_is_used_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as earlier:
        earlier.execute(_CREATE)
        earlier.execute("INSERT INTO outbox VALUES (2, 2, x'00')")
    monkeypatch.setattr("sqlite3.connect", partial(sqlite3.connect, factory=_Full))
    with closing(SqliteOutbox(path)) as store:
        assert [one.serial for one in store.load()] == [2]


def test_an_outbox_that_is_closed_is_an_error(tmp_path: Path) -> None:
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as store:
        pass
    with pytest.raises(OutboxError, match="write the outbox"):
        store.change([kept(1)], [])


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_put_aside_and_a_new_one_begun(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Never deleted; the log says where it is."""
    path = tmp_path / "outbox.db"
    path.write_bytes(content)
    with closing(open_outbox(path, 1_800_000_000.0)) as store:
        store.change([kept(1)], [])
        assert len(store.load()) == 1
    assert (tmp_path / "outbox.db.bad-1800000000.1").read_bytes() == content
    assert "outbox.db.bad-1800000000.1" in caplog.text


@pytest.mark.parametrize(
    ("row", "accepted", "frame"),
    [
        ("INSERT INTO outbox VALUES (1, 1, CAST(x'ff61' AS TEXT))", 1, b"\xffa"),
        ("INSERT INTO outbox VALUES (1, 'x', 'abc')", 0, b"abc"),
        ("INSERT INTO outbox VALUES (1, 1.5, 5)", 1, b"5"),
    ],
)
def test_a_damaged_row_keeps_its_bytes_and_no_other_row_from_being_sent(
    path: Path, row: str, accepted: int, frame: bytes
) -> None:
    """One wrong bit makes a BLOB a text; a frame that was no bytes ended edgehub at each start."""
    with closing(open_outbox(path, 1.0)) as store:
        store.change([sound := kept(2)], [])
        store._connection.execute(row)
        assert store.load() == [StoredMessage(1, accepted, frame), sound]


def test_files_that_are_put_aside_in_one_second_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    (tmp_path / "outbox.db.bad-5").write_text("an earlier version's")
    for number in range(2):
        path.write_bytes(b"%d" % number * 5000)
        open_outbox(path, 5.0).close()
    kept = {each.name: each.read_text()[:1] for each in tmp_path.glob("*.bad-*")}
    assert kept == {"outbox.db.bad-5": "a", "outbox.db.bad-5.1": "0", "outbox.db.bad-5.2": "1"}


def test_a_file_that_is_broken_in_the_middle_is_put_aside_too(tmp_path: Path) -> None:
    """It is read once when it is opened."""
    path = tmp_path / "outbox.db"
    with closing(SqliteOutbox(path)) as store:
        store.change([kept(number, message("a/b/c", "upload", "x" * 3000)) for number in range(1, 50)], [])
    data = bytearray(path.read_bytes())
    data[8192:20480] = b"\xa5" * 12288
    path.write_bytes(data)
    with closing(open_outbox(path, 5.0)) as store:
        assert store.load() == []
    assert (tmp_path / "outbox.db.bad-5.1").exists()


def test_a_file_that_cannot_be_opened_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """And nothing is put aside."""
    (tmp_path / "file").touch()
    with pytest.raises(OutboxError, match=r"open the outbox: .*outbox\.db .*see the disk"):
        open_outbox(tmp_path / "file" / "outbox.db", 0.0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_behind_a_link_is_used(tmp_path: Path) -> None:
    """An administrator has put it on another disk."""
    elsewhere, path = tmp_path / "disk" / "outbox.db", tmp_path / "outbox.db"
    with closing(SqliteOutbox(elsewhere)) as store:
        store.change([kept(1)], [])
    path.symlink_to(elsewhere)
    with closing(open_outbox(path, 0.0)) as store:
        assert [one.serial for one in store.load()] == [1]
    assert path.is_symlink()


def test_nothing_of_a_removed_message_is_left_in_the_file(path: Path) -> None:
    """The data of devices is confidential."""
    with closing(SqliteOutbox(path)) as store:
        store.change([kept(1, message("a/b/c", "upload", "a secret" * 10)), kept(2)], [])
    assert b"a secret" in path.read_bytes()
    with closing(SqliteOutbox(path)) as store:
        store.change([], [1])
    assert b"a secret" not in path.read_bytes()


@pytest.mark.parametrize(("at", "damage"), [(0, b"this is no database"), (8192, b"\xa5" * 12288)])
def test_a_file_that_is_put_aside_is_not_kept_open(path: Path, at: int, damage: bytes) -> None:
    with closing(SqliteOutbox(path)) as store:
        store.change([kept(number, message("a/b/c", "upload", "x" * 3000)) for number in range(1, 50)], [])
    data = bytearray(path.read_bytes())
    data[at : at + len(damage)] = damage
    path.write_bytes(data)
    with without_collections(), closing(open_outbox(path, 5.0)):
        left = [each for each in Path("/proc/self/fd").iterdir() if ".bad-5" in os.path.realpath(each)]
    assert left == []


def test_a_directory_in_its_place_gives_way(tmp_path: Path) -> None:
    """Otherwise no message could be kept on the disk until somebody removes the directory."""
    (tmp_path / "outbox.db").mkdir()
    with closing(open_outbox(tmp_path / "outbox.db", 0.0)) as store:
        assert store.load() == []
    assert [path.name for path in all_set_aside(tmp_path)] == ["outbox.db.1"]


def test_a_change_that_fails_changes_nothing(path: Path) -> None:
    """All or nothing; afterwards it can be written."""
    with closing(SqliteOutbox(path)) as store, closing(sqlite3.connect(path)) as other:
        store._connection.execute("PRAGMA busy_timeout=0")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutboxError, match="locked"):
            store.change([kept(1)], [])
        other.rollback()
        store.change([kept(2)], [])
        unfit = StoredMessage(3, 0, object())  # type: ignore[arg-type]
        with pytest.raises(OutboxError, match="write"):
            store.change([unfit], [2])
        store.change([kept(4)], [])
        assert [one.serial for one in store.load()] == [2, 4]
        other.execute("CREATE TRIGGER no BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'it stays'); END")
        with pytest.raises(OutboxError, match="it stays"):
            store.change([kept(5)], [2])
        assert [one.serial for one in store.load()] == [2, 4]


# The module with it


class Disk:
    """An outbox in memory that outlives processes, and fails when told."""

    def __init__(self) -> None:
        self.rows: dict[int, StoredMessage] = {}
        self.failing = self.unreadable = False
        self.opened = self.closed = self.changes = 0

    def open(self) -> OutboxStore:
        self._check("open")
        self.opened += 1
        return self

    def load(self) -> list[StoredMessage]:
        if self.unreadable:
            raise OutboxError("read", "disk", "damaged")
        return [self.rows[serial] for serial in sorted(self.rows)]

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        self._check("write")
        self.changes += 1
        self.rows.update((one.serial, one) for one in put)
        for serial in gone:
            self.rows.pop(serial, None)

    def close(self) -> None:
        self.closed += 1

    def _check(self, attempt: str) -> None:
        if self.failing:
            raise OutboxError(attempt, "disk", "full")


@pytest.fixture
def disk() -> Disk:
    """A disk that works."""
    return Disk()


def node(open_outbox: OpenOutbox, **changes: object) -> Bed:
    """A node's process, started."""
    bed = Bed(open_outbox=open_outbox, **changes)  # type: ignore[arg-type]
    bed.bee.start()
    return bed


def killed(bed: Bed) -> None:
    """The end of a process that is killed: nothing of it is seen any more."""
    bed.cloud.refusing = True
    bed.cloud.frames.clear()


def ids(bed: Bed) -> list[str]:
    """What the cloud got."""
    return [one.id for one in bed.sent()]


def test_waiting_messages_survive_the_process(path: Path) -> None:
    """On a real file: in order, the newest of each state, and with its message id."""
    first = node(lambda: SqliteOutbox(path), refusing=True)
    events = []
    for number in range(3):
        first.hub(message("default/podstatus/a", "update", {"n": number}))
        events.append(first.hub(upload(str(number))).id)
    second = node(lambda: SqliteOutbox(path))
    with first.bee, second.bee:
        second.bee.run_for(1)
        assert [one.id for one in second.sent() if one.route.operation == "upload"] == events
        states = [one.content_as(dict) for one in second.sent() if one.route.operation == "update"]
        assert states == [{"n": 2}]
        assert second.counters.outbox_restored == 4
        second.bee.run_for(20)
        with closing(SqliteOutbox(path)) as store:
            assert store.load() == [], "all has settled"


def test_a_message_of_the_future_is_as_old_as_the_process(disk: Disk) -> None:
    """The clock was set back: the message would never be too old."""
    disk.rows[1] = kept(1, accepted=4_000_000_000_000)
    bed = node(disk.open, refusing=True, limits=Limits(uploads=Limit(10, 100_000, age=3600.0)))
    with bed.bee:
        bed.bee.run_for(4000)
        bed.cloud.refusing = False
        bed.bee.run_for(60)
        assert bed.sent() == []


def test_a_disk_that_is_full_for_long_is_tried_every_ten_seconds(disk: Disk) -> None:
    """And with each message; each failure had begun tries of its own, which never ended."""
    bed = node(disk.open, refusing=True)
    tries = list[float]()
    disk.failing = True
    check = disk._check

    def counted(attempt: str) -> None:
        tries.append(bed.bee.clock.monotonic())
        check(attempt)

    disk._check = counted  # type: ignore[method-assign]
    with bed.bee:
        for number in range(30):
            bed.hub(upload(str(number)))
            bed.bee.run_for(1)
        tries.clear()
        bed.bee.run_for(300)
        assert 28 <= len(tries) <= 60, "and at each attempt to connect"
        disk.failing = False
        bed.bee.run_for(11)
        assert disk.changes > 0


def test_an_upload_is_answered_when_its_own_write_has_ended(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk still writes an earlier one. A broker forgets what is answered, so it must be on the disk by then."""
    bed = node(disk.open, refusing=True)
    asked, open_at_write = [], []
    change = disk.change

    def ask(text: str) -> None:
        asked.append(message("default/session", "upload", ["a/user/b", text], source="bus", group="user"))
        bed.bee.future("websocket", asked[-1])

    def slow(put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        if len(asked) < 3:
            ask("during a write")
        open_at_write.append([one.id in bed.bee.hive.pending_requests.ids() for one in asked])
        change(put, gone)

    monkeypatch.setattr(disk, "change", slow)
    with bed.bee:
        ask("first")
        bed.bee.run_for(1)
        assert open_at_write == [[True, True], [False, True, True], [False, False, True]]
        assert not bed.bee.hive.pending_requests.ids()
        assert not bed.bee.hive.pending_requests.unmatched, "each is answered once"


def test_requests_and_answers_are_not_kept(disk: Disk) -> None:
    """Who asked asks again; the cloud sends again."""
    bed = node(disk.open)
    with bed.bee:
        bed.bee.future("websocket", message("default/podpatch/p", "patch"))
        bed.hub(message("default/pod/p", "response", "OK", parent_msg_id="p"))
        bed.bee.run_for(40)
        assert len(bed.sent()) == 2
        assert (disk.changes, disk.opened) == (0, 1)


def event(name: str) -> Message:
    """A Kubernetes event."""
    return message(f"default/event/{name}", "insert", name)


def test_an_event_that_the_cloud_reads_soon_is_never_written(disk: Disk) -> None:
    bed = node(disk.open)
    with bed.bee:
        sent = [bed.hub(event(name)).id for name in "abc"]
        bed.bee.run_for(40)
        assert ids(bed) == sent
        assert disk.changes == 0


def test_events_that_wait_for_the_cloud_are_written_together(disk: Disk) -> None:
    """And leave after a kill."""
    bed = node(disk.open, refusing=True)
    sent = [bed.hub(event(name)).id for name in "abc"]
    bed.bee.run_for(EVENT_SECONDS)
    assert (len(disk.rows), disk.changes) == (3, 1)
    killed(bed)
    again = node(disk.open)
    with bed.bee, again.bee:
        again.bee.run_for(1)
        assert ids(again) == sent
        again.bee.run_for(40)
        assert disk.rows == {}


def test_an_event_is_written_with_what_may_not_leave_before(disk: Disk) -> None:
    bed = node(disk.open)
    with bed.bee:
        sent = [bed.hub(event("a")).id, bed.hub(upload("b")).id]
        assert sorted(ids(bed)) == sorted(sent)
        assert disk.changes == 1
        bed.bee.run_for(40)
        assert disk.rows == {}


@pytest.mark.parametrize("seconds", [0, 3])
def test_an_event_is_written_when_the_link_ends_before_it_has_settled(disk: Disk, seconds: int) -> None:
    """The cloud may have died with it, whether or not it has read it."""
    bed = node(disk.open)
    sent = bed.hub(event("a")).id
    bed.bee.run_for(seconds)
    bed.cloud.refusing = True
    bed.cut(wait=EVENT_SECONDS)
    assert len(disk.rows) == 1
    killed(bed)
    again = node(disk.open)
    with bed.bee, again.bee:
        again.bee.run_for(1)
        assert ids(again) == [sent]


def test_events_that_wait_at_the_end_are_written(disk: Disk) -> None:
    bed = node(disk.open, refusing=True)
    bed.hub(event("a"))
    bed.bee.hive.stop()
    assert len(disk.rows) == 1


def test_one_flush_serves_all_changes_until_then(disk: Disk) -> None:
    """A hundred messages in a row are two writes: the first, and the others together."""
    bed = node(disk.open, message_qps=0)
    with bed.bee:
        for number in range(100):
            bed.bee.hive.send("websocket", upload(str(number)))
        bed.bee.settle()
        assert len(bed.sent()) == 100
        assert disk.changes < 50
        assert bed.counters.outbox_writes == disk.changes


def test_settled_messages_are_removed_and_others_leave_again_after_a_kill(disk: Disk) -> None:
    """A keepalive period after the cloud's pong."""
    bed = node(disk.open)
    bed.hub(upload("settled"))
    bed.bee.run_for(10)
    late = bed.hub(upload("late")).id
    bed.bee.run_for(5.5)
    assert len(disk.rows) == 1
    killed(bed)
    again = node(disk.open)
    with bed.bee, again.bee:
        again.bee.run_for(1)
        assert ids(again) == [late]


def test_what_settles_one_after_the_other_is_removed_in_few_writes(disk: Disk) -> None:
    """At most one a second, however many messages the cloud confirms: each is a flush of the disk."""
    bed = node(disk.open, message_qps=0)
    with bed.bee:
        for number in range(60):
            bed.hub(upload(str(number)))
            bed.bee.run_for(0.1)
        before = disk.changes
        bed.bee.run_for(20)
        assert disk.rows == {}
        assert disk.changes - before <= 20


def test_a_process_that_ends_in_good_order_leaves_nothing_that_has_arrived(disk: Disk) -> None:
    """Or every restart would repeat the last messages."""
    bed = node(disk.open)
    bed.hub(upload("a"))
    bed.bee.run_for(1)
    assert len(disk.rows) == 1
    bed.bee.hive.stop()
    assert disk.rows == {}
    assert disk.closed == 1


def test_a_full_disk_stops_nobody_and_what_waits_is_written_when_there_is_room(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """Logged once until it is over, counted each time."""
    bed = node(disk.open)
    with bed.bee:
        disk.failing = True
        sent = [bed.hub(upload(str(number))).id for number in range(3)]
        assert ids(bed) == sent
        bed.cloud.refusing = True
        bed.cloud.cut()
        waiting = bed.hub(upload("waiting"))
        assert disk.rows == {}
        assert caplog.text.count("only in memory meanwhile") == 1
        disk.failing = False
        bed.bee.run_for(10)
        assert waiting.id.encode() in b"".join(one.frame for one in disk.rows.values())
        assert "can be written again" in caplog.text
        bed.hub(upload("written"))
        assert caplog.text.count("can be written again") == 1
        disk.failing = True
        bed.hub(upload("the disk is full again"))
        assert caplog.text.count("only in memory meanwhile") == 2


def uploads(*texts: str) -> Message:
    """What eventbus asks edgehub to keep."""
    return message("session", "upload", [part for text in texts for part in ("a/user/b", text)], source="bus")


def test_an_upload_is_answered_when_it_is_written(disk: Disk) -> None:
    """An application's message that the broker may forget then; while the disk is full there is no answer."""
    bed = node(disk.open, refusing=True)
    with bed.bee:
        answer = bed.bee.ask("websocket", uploads("1"))
        assert answer.content == 1
        assert len(disk.rows) == 1
        disk.failing = True
        waiting = bed.bee.future("websocket", uploads("2", "3"))
        bed.bee.run_for(5)
        assert [waiting.settled, len(disk.rows)] == [False, 1]
        disk.failing = False
        bed.bee.run_for(10)
        assert [waiting.settled, len(disk.rows)] == [True, 3]
        assert waiting.get().content == 2


def test_an_upload_that_is_too_large_for_the_cloud_is_dropped_and_holds_up_none_behind_it(disk: Disk) -> None:
    bed = node(disk.open, max_frame_bytes=10_000)
    with bed.bee:
        bed.bee.run_for(1)
        assert bed.bee.ask("websocket", uploads("1", "x" * 10_000, "2")).content == 3
        assert [one.content_as(str) for one in bed.sent()] == ["1", "2"]
        assert bed.counters.refused == {Refusal.TOO_LARGE: 1}


@pytest.mark.parametrize("opened", [False, True])
def test_an_upload_that_has_arrived_is_answered_though_no_disk_took_it(disk: Disk, *, opened: bool) -> None:
    """While the disk is full it leaves from memory. A broker without an answer would send it again."""
    disk.failing = not opened
    bed = node(disk.open)
    with bed.bee:
        bed.bee.run_for(1)
        disk.failing = True
        waiting = bed.bee.future("websocket", uploads("1"))
        bed.bee.run_for(1)
        assert [one.content_as(str) for one in bed.sent()] == ["1"]
        if opened:
            bed.bee.run_for(30)
        disk.failing = False
        bed.bee.run_for(10)
        assert waiting.settled
        assert waiting.get().content == 1


def test_an_upload_without_room_is_refused_to_its_sender(disk: Disk) -> None:
    """So that it is not acknowledged."""
    bed = node(disk.open, refusing=True, limits=Limits(uploads=Limit(1, 100_000)))
    with bed.bee:
        bed.bee.ask("websocket", uploads("1"))
        answer = bed.bee.ask("websocket", uploads("2", "3"))
        assert answer.route.operation == "error"
        assert "wait for the cloud already" in answer.content_as(str)


def test_an_outbox_that_cannot_be_opened_is_tried_again(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """What waits in it is not lost, and what came meanwhile comes after it; the failure is logged and counted."""
    old, new = upload("old"), upload("new")
    disk.rows[5] = kept(5, old)
    disk.failing = True
    bed = node(disk.open, refusing=True)
    with bed.bee:
        bed.hub(new)
        assert bed.counters.outbox_failures == 1
        assert caplog.text.count("only in memory meanwhile") == 1
        disk.failing = False
        bed.bee.run_for(10)
        assert sorted(disk.rows) == [5, 6]
        bed.cloud.refusing = False
        bed.bee.run_for(31)
        assert ids(bed) == [old.id, new.id]


@pytest.mark.parametrize("failure", ["failing", "unreadable"])
def test_messages_found_when_the_outbox_can_be_opened_at_last_leave_then(disk: Disk, failure: str) -> None:
    """Nothing else happens that would send it. An outbox that was opened in vain is not kept open."""
    old = upload("old")
    disk.rows[5] = kept(5, old)
    setattr(disk, failure, True)
    bed = node(disk.open)
    with bed.bee:
        assert ids(bed) == []
        assert disk.closed == disk.opened
        setattr(disk, failure, False)
        bed.bee.run_for(10)
        assert ids(bed) == [old.id]


def test_a_row_that_is_not_a_message_is_left_out_and_its_serial_not_reused(disk: Disk) -> None:
    """A row written by another program must not stop the link."""
    disk.rows = {serial: StoredMessage(serial, 0, b"nonsense") for serial in (4, 9)}
    bed = node(disk.open)
    with bed.bee:
        for expected in ([4, 9, 10], [4, 9, 10, 11]):
            bed.hub(upload("a"))
            assert sorted(disk.rows) == expected
        assert len(ids(bed)) == 2


@pytest.mark.parametrize(("accepted_ago", "expected"), [(3500, 1), (3700, 0), (-5000, 1)])
def test_age_counts_over_a_restart(disk: Disk, accepted_ago: float, expected: int) -> None:
    """By the wall clock; setting it back makes nothing older."""
    bed = Bed(open_outbox=disk.open)
    accepted = int((bed.bee.clock.now() - accepted_ago) * 1000)
    disk.rows[1] = kept(1, message("default/event/e", "insert"), accepted)
    with bed.bee:
        bed.bee.start()
        assert len(bed.sent()) == expected


def test_a_time_of_a_board_without_a_clock_makes_nothing_old(disk: Disk) -> None:
    """It was accepted in 1970, an hour ago perhaps."""
    disk.rows[1] = kept(1, message("default/event/e", "insert"), 3_000_000)
    bed = node(disk.open)
    with bed.bee:
        assert len(bed.sent()) == 1


def test_messages_found_in_the_outbox_are_recorded(disk: Disk) -> None:
    """Messages of an earlier run are inputs of this one, and so are failures of the disk."""
    entries: list[OutboxEntry] = []
    disk.rows[1] = kept(1)
    opener = recording(disk.open, EntrySink(Bed().bee.clock, Redactor(), lambda: 1, entries.append))
    store = opener()
    assert [one.serial for one in store.load()] == [1]
    disk.failing = True
    with pytest.raises(OutboxError):
        store.change([], [1])
    with pytest.raises(OutboxError):
        opener()
    assert [(len(one.found), one.error) for one in entries] == [
        (1, ""),
        (0, "write: disk (full)"),
        (0, "open: disk (full)"),
    ]


def test_a_row_has_the_time_when_the_message_was_taken(disk: Disk) -> None:
    """Unix milliseconds, also when it is written later than that."""
    disk.failing = True
    bed = node(disk.open, refusing=True)
    with bed.bee:
        taken = bed.bee.clock.now()
        bed.hub(upload("a"))
        disk.failing = False
        bed.bee.run_for(10)
        assert [one.accepted for one in disk.rows.values()] == [pytest.approx(taken * 1000, abs=1)]


def test_a_state_that_is_found_twice_leaves_once_and_the_older_row_goes(disk: Disk) -> None:
    """The process ended after the newer one was written and before the older one was removed."""
    status = "default/podstatus/a"
    newer = message(status, "update", {"n": 2})
    disk.rows = {1: kept(1, message(status, "update", {"n": 1})), 2: kept(2, newer)}
    bed = node(disk.open)
    with bed.bee:
        bed.bee.run_for(20)
        assert ids(bed) == [newer.id]
        assert disk.rows == {}


def test_a_record_of_a_failure_is_a_note_of_no_message() -> None:
    """It belongs to no trace and brings no rows back when the run is replayed."""
    note = OutboxEntry(7.0, "write: disk (full)").record(7.5, Redactor())
    assert note == Note(7.5, 0, 0, 0, OUTBOX, "websocket", "failed: write: disk (full)")


def test_a_record_of_an_opening_has_the_rows() -> None:
    """Each as serial, time and frame, so that a replay begins with them."""
    row = kept(3)
    entry = OutboxEntry(7.0, "", (row,))
    assert entry.size > len(row.frame)
    note = entry.record(7.5, Redactor())
    assert isinstance(note, Note)
    assert (note.span, note.cause, note.trace) == (0, 0, 0)
    assert note.data == [[3, row.accepted, row.frame]]
