"""Files and directories of edged that are not open after a call of the kernel has failed."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import MagicMock, Mock

import pytest

from edged.cgroups import tree
from edged.chains.file import ChainFile
from edged.cri.channel import Channel
from edged.pleg import termination_message
from edged.volumes import ownership, sub_path
from edged.volumes.directory_usage import DirectoryCount, disk_usage
from tests.edged.pod_workers.test_pod_directories import MAIN, POD, files_in
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


def _chains(root: Path) -> Callable[[], object]:
    file = ChainFile(root)
    file.replace([b"first"])
    return lambda: file.append([b"second"])


def _sub_path(root: Path) -> Callable[[], object]:
    (root / "a" / "b").mkdir(parents=True)

    def run() -> None:
        with sub_path._opened(root, "a/b"):
            next(root.iterdir())  # a call that may fail while the path is open

    return run


def _new_sub_path(root: Path) -> Callable[[], object]:
    def run() -> None:
        with sub_path._opened(root, "a"):
            pass

    return run


def _last_words(root: Path) -> Callable[[], object]:
    files = files_in(root)
    return lambda: files._last_words(POD, MAIN, 0)


def _written(root: Path) -> Callable[[], object]:
    (root / "file").touch()
    return lambda: tree._write(root / "file", "+cpu")


def _message(root: Path) -> Callable[[], object]:
    (root / "file").write_text("the end")
    return lambda: termination_message._tail(root / "file", 80)


def _given(root: Path) -> Callable[[], object]:
    (root / "file").touch()
    return lambda: ownership._give(str(root / "file"), os.getgid())


@pytest.mark.parametrize(
    ("prepare", "calls"),
    [(_chains, 3), (_sub_path, 5), (_new_sub_path, 9), (_last_words, 6), (_written, 2), (_message, 2), (_given, 2)],
    ids=["chains", "sub path", "new sub path", "last words", "cgroup", "termination message", "ownership"],
)
def test_a_failure_leaves_nothing_open(
    tmp_path: Path, prepare: Callable[[Path], Callable[[], object]], calls: int
) -> None:
    def make(failing: Failing) -> Attempt:
        operation = prepare(Path(mkdtemp(dir=tmp_path)))

        return Attempt(failing.in_kernel(operation))

    assert fail_at_each_call(make) >= calls


def test_a_stream_whose_reader_fails_is_cancelled() -> None:
    call = MagicMock()
    call.__iter__.return_value = iter([1])
    with pytest.raises(PlannedError):
        Channel.read(Mock(), call, lambda: None, Failing(0).call(print))
    call.cancel.assert_called_once_with()


def test_a_count_that_fails_closes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = census()
    monkeypatch.setattr(DirectoryCount, "usage", property(lambda _: 1 // 0))
    with pytest.raises(ZeroDivisionError) as caught:
        disk_usage(_crowd(tmp_path), 1)
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def _crowd(root: Path) -> Path:
    """A directory that is not counted to its end."""
    for number in range(9):
        (root / str(number)).touch()
    return root
