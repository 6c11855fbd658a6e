"""The journal: one flush for all who wait, whole frames only, and no more bytes than it needs."""

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from modules.runtimes.engine import journal as journal_module
from modules.runtimes.engine.journal import NAME, Journal
from tests.support.descriptors import open_descriptors
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call
from tests.support.patience import PATIENCE


def _directory(root: Path, name: str = "a") -> Path:
    directory = root / "containers" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _restored(root: Path, boot: str) -> dict[str, bytes]:
    """Start at a boot of the machine; return the contents of all files."""
    (root / "containers").mkdir(exist_ok=True)
    journal = Journal(root, boot)
    journal.restore((path for path in (root / "containers").iterdir()), "record.json")
    journal.close()
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in (root / "containers").glob("*/*")}


def _synced_by(act: Callable[[], None]) -> list[Path]:
    """Do something; return the files and directories that it has flushed."""
    synced, sync = list[Path](), os.fsync

    def flush(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    with pytest.MonkeyPatch.context() as noted:
        noted.setattr(os, "fsync", flush)
        act()
    return synced


def test_files_are_written_again_after_another_boot_only(tmp_path: Path) -> None:
    """At the same boot the files are what counts: nothing has spoilt them."""
    journal = Journal(tmp_path, "first")
    for content in (b"old", b"new"):
        journal.write(_directory(tmp_path) / "request.pb", content)
    journal.close()
    (tmp_path / "containers/a/request.pb").write_bytes(b"")
    assert _restored(tmp_path, "first") == {"a/request.pb": b""}
    assert _restored(tmp_path, "second") == {"a/request.pb": b"new"}
    number = (tmp_path / "containers/a/request.pb").stat().st_ino
    assert _restored(tmp_path, "third") == {"a/request.pb": b"new"}
    assert (tmp_path / "containers/a/request.pb").stat().st_ino == number, "it was as it should be"
    (tmp_path / "containers/a/request.pb").write_bytes(b"new" + bytes(1))
    assert _restored(tmp_path, "third") == {"a/request.pb": b"new"}
    shutil.rmtree(tmp_path / "containers/a")
    assert _restored(tmp_path, "fourth") == {"a/request.pb": b"new"}
    assert (tmp_path / "containers/a").stat().st_mode & 0o777 == 0o711


def test_what_was_written_since_the_boot_is_not_replaced_by_what_was_before(tmp_path: Path) -> None:
    """At each further start at the same boot."""
    for boot in ("first", "second"):
        journal = Journal(tmp_path, boot)
        journal.restore([_directory(tmp_path)], "record.json")
        journal.write(_directory(tmp_path) / "record.json", boot.encode())
        journal.close()
    assert _restored(tmp_path, "second") == {"a/record.json": b"second"}


def test_what_could_not_be_written_again_is_written_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the journal was written anew meanwhile."""
    journal = Journal(tmp_path, "first")
    journal.write(_directory(tmp_path) / "record.json", b"1")
    journal.close()
    shutil.rmtree(tmp_path / "containers/a")
    with monkeypatch.context() as full:
        full.setattr(journal_module, "_put", Failing(0, OSError(errno.ENOSPC, "full")).call(print))
        journal = Journal(tmp_path, "second")
        journal.restore([], "record.json")
    journal._limit = 0
    journal.add(_directory(tmp_path, "b"), {"record.json": b"2"})
    journal.flush()
    journal.close()
    assert _restored(tmp_path, "third") == {"a/record.json": b"1", "b/record.json": b"2"}


class _Others:
    """The lock of flushes, whose holder finds what others have done meanwhile."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self._acts = acts

    def __enter__(self) -> None:
        for act in self._acts:
            act()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_flush_counts_for_all_that_was_written_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one whose frames others have flushed meanwhile makes none for theirs."""
    flushes, directory, journal = list[int](), _directory(tmp_path), Journal(tmp_path, "first")
    monkeypatch.setattr(os, "fdatasync", flushes.append)
    write: Callable[[], None] = lambda: journal.add(directory, {"1": b""})  # noqa: E731
    write()
    flush, journal._flushing = journal._flushing, cast("Any", _Others(write))
    journal.flush()
    journal._flushing = flush
    journal.flush()
    assert len(flushes) == 1
    write()
    journal._flushing = cast("Any", _Others(lambda: setattr(journal, "_flushed", journal._appended), write))
    journal.flush()
    assert len(flushes) == 1
    journal.close()


def test_a_large_journal_is_not_written_anew_with_each_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_LARGEST", 100)
    journal, written = Journal(tmp_path, "first"), list[bytes]()
    replaced: Callable[[bytes], int] = journal._replaced

    def counted(content: bytes) -> int:
        written.append(content)
        return replaced(content)

    monkeypatch.setattr(journal, "_replaced", counted)
    journal._limit = 100
    for number in range(20):
        journal.add(_directory(tmp_path), {str(number): bytes(100)})
        journal.flush()
    journal.close()
    assert 0 < len(written) <= 6


def test_a_torn_frame_is_cut_off(tmp_path: Path) -> None:
    """Wherever it is torn, the frames before it count, and later ones are read."""
    journal = Journal(tmp_path, "first")
    journal.add(_directory(tmp_path), {"one": b"1"})
    first = (tmp_path / NAME).stat().st_size
    journal.add(_directory(tmp_path), {"two": b"2"})
    journal.close()
    whole = (tmp_path / NAME).read_bytes()
    for length in range(first, len(whole)):
        for torn in (whole[:length], whole[:length] + bytes(len(whole) - length)):
            root = tmp_path / f"{length}-{len(torn)}"
            root.mkdir()
            (root / NAME).write_bytes(torn)
            journal = Journal(root, "first")
            journal.add(_directory(root), {"three": b"3"})
            journal.close()
            assert _restored(root, "second") == {"a/one": b"1", "a/three": b"3"}, length


def test_a_full_disk_tears_no_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of a frame is cut off, and the next one follows the last whole one."""
    journal, write = Journal(tmp_path, "first"), os.write
    journal.add(_directory(tmp_path), {"one": b"1"})

    def fills(descriptor: int, content: memoryview) -> int:
        if len(content) < 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content[:5])

    with monkeypatch.context() as full:
        full.setattr(os, "write", fills)
        with pytest.raises(OSError, match="No space"):
            journal.add(_directory(tmp_path), {"two": b"2"})
    journal.add(_directory(tmp_path), {"three": b"3"})
    journal.close()
    assert _restored(tmp_path, "second") == {"a/one": b"1", "a/three": b"3"}


def test_one_flush_serves_all_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who write while the journal is flushed share the next flush."""
    begun, finish, flushes = Event(), Event(), []

    def flush(descriptor: int) -> None:
        flushes.append(descriptor)
        begun.set()
        assert finish.wait(PATIENCE)

    journal = Journal(tmp_path, "first")
    journal.add(_directory(tmp_path), {"0": b""})
    monkeypatch.setattr(os, "fdatasync", flush)
    with ThreadPoolExecutor(6) as threads:
        first = threads.submit(journal.flush)
        assert begun.wait(PATIENCE)
        for number in range(1, 6):
            journal.add(_directory(tmp_path), {str(number): b""})
        others = [threads.submit(journal.flush) for _ in range(5)]
        finish.set()
        for each in (first, *others):
            each.result(PATIENCE)
    assert len(flushes) == 2
    journal.flush()
    assert len(flushes) == 2
    journal.close()


def test_after_a_failed_flush_all_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A further flush would succeed, though the kernel has given up what it could not write."""

    def fails(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(tmp_path, "first")
    journal.add(_directory(tmp_path), {"one": b"1"})
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fails)
        with pytest.raises(OSError, match="output error"):
            journal.flush()
        broken.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="output error"):
            journal.flush()
    before = (tmp_path / NAME).stat().st_ino
    journal.flush()
    assert (tmp_path / NAME).stat().st_ino != before
    journal.close()
    assert _restored(tmp_path, "second") == {"a/one": b"1"}


def test_a_journal_whose_name_is_not_durable_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later frame makes it durable, and so does a later edgecore."""
    synced, lives = list[Path](), [Journal(tmp_path, "first")]
    monkeypatch.setattr("modules.runtimes.engine.journal.sync_directory", Failing(0).call(synced.append))
    with pytest.raises(PlannedError):
        lives[0].add(_directory(tmp_path), {"one": b"1"})
    lives[0].add(_directory(tmp_path), {"one": b"1"})
    lives.append(Journal(tmp_path, "first"))
    for each in lives:
        each.close()
    assert synced == [tmp_path, tmp_path]


@pytest.mark.parametrize("is_large", [False, True])
def test_whichever_call_of_writing_it_anew_fails_later_frames_are_kept(tmp_path: Path, *, is_large: bool) -> None:
    """In the file that has the name by then; and a flush that passes has made that name durable."""
    for at in range(20):
        (root := tmp_path / str(at)).mkdir()
        before = census()
        journal, failing = Journal(root, "first"), Failing(at)
        journal.add(_directory(root), {"one": b"1" * 100})
        journal._limit = journal._size - 1 if is_large else 0
        has_passed = True
        with failing.kernel_calls():
            try:
                journal.flush()
            except OSError:
                has_passed = False
        journal.add(_directory(root), {"two": b"2"})
        synced = _synced_by(journal.flush)
        journal.close()
        failing.forget()
        assert not census().more_than(before)
        assert has_passed or root in synced
        assert _restored(root, "second") == {"a/one": b"1" * 100, "a/two": b"2"}, at
        if not failing.has_failed:
            assert at >= 6
            return
    raise AssertionError("it has more calls")


def test_it_keeps_no_more_than_twice_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods come and go for years."""
    monkeypatch.setattr(journal_module, "_LARGEST", 4096)
    journal, largest = Journal(tmp_path, "first"), 0
    journal.write(_directory(tmp_path, "stays") / "one", b"1" * 100)
    for number in range(200):
        journal.write(_directory(tmp_path, f"goes{number}") / "one", b"2" * 100)
        journal.flush()
        journal.remove(tmp_path / "containers" / f"goes{number}")
        largest = max(largest, (tmp_path / NAME).stat().st_size)
    journal.close()
    assert largest < 4096 + 200
    journal = Journal(tmp_path, "second")
    (tmp_path / "containers/stays/one").unlink()
    journal.restore((tmp_path / "containers" / "stays",), "record.json")
    assert (tmp_path / "containers/stays/one").read_bytes() == b"1" * 100
    (tmp_path / "containers/stays/one").unlink()
    journal.restore((), "record.json")
    assert not (tmp_path / "containers/stays/one").exists(), "what was written again is in memory no longer"
    journal.close()


def test_a_journal_that_cannot_be_written_anew_grows_before_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each flush would copy all of it in vain."""
    tries: list[int] = []

    def write(_path: Path, content: bytes) -> None:
        tries.append(len(content))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal_module, "write_file", write)
    journal = Journal(tmp_path, "first")
    journal.add(_directory(tmp_path), {"0": b"1" * 100})
    size = journal._limit = journal._size
    for number in range(1, 9):
        journal.add(_directory(tmp_path), {str(number): b"1" * 100})
        journal.flush()
    assert tries == [2 * size, 3 * size, 5 * size, 9 * size]
    journal.close()


def test_a_directory_of_an_earlier_version_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record may be replaced from now on, as it is durable; a damaged one is left to others."""
    (_directory(tmp_path) / "record.json").write_bytes(b"{}")
    _directory(tmp_path, "damaged")
    flushed = list[int]()
    with monkeypatch.context() as noted:
        noted.setattr(os, "fdatasync", flushed.append)
        _restored(tmp_path, "first")
    assert len(flushed) == 1
    (tmp_path / "containers/a/record.json").write_bytes(b"")
    assert _restored(tmp_path, "second") == {"a/record.json": b"{}"}


def test_a_removal_that_a_full_disk_has_refused_counts_when_the_journal_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each time that it is written anew, the former file is closed."""
    journal = Journal(tmp_path, "first")
    for name in ("a", "b"):
        journal.write(_directory(tmp_path, name) / "record.json", b"1")
    with monkeypatch.context() as full:
        full.setattr(os, "write", Failing(0).call(os.write))
        journal.remove(tmp_path / "containers/a")
    shutil.rmtree(tmp_path / "containers/a")
    for _ in range(3):
        journal.write(tmp_path / "containers/b/record.json", b"2")
        journal._limit = 0
        journal.flush()
    of_journals = [target for _, target in open_descriptors() if target.startswith(str(tmp_path / NAME))]
    assert len(of_journals) == 1
    journal.close()
    journal.close()
    assert _restored(tmp_path, "second") == {"b/record.json": b"2"}


def test_a_journal_that_cannot_be_read_is_closed(tmp_path: Path) -> None:
    Journal(tmp_path, "first").write(_directory(tmp_path) / "record.json", b"1")

    def make(failing: Failing) -> Attempt:
        made: list[Journal] = []

        def run() -> None:
            with failing.kernel_calls():
                made.append(Journal(tmp_path, "first"))

        return Attempt(run, undo=lambda: made.pop().close())

    assert fail_at_each_call(make) >= 3
