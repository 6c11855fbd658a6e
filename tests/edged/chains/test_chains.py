"""The chain of a pod: bounded, counted, and kept in a file that a power cut or a damage does not take away."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from beehive.decoding import decode_json
from beehive.files.damaged import all_set_aside
from edged.chains.chains import MOST_PODS, NEW_SECONDS, REPEATED_SECONDS, Chains
from edged.chains.file import NAME, ChainFile
from edged.chains.model import FIRST_STEPS, LONGEST_TEXT, MOST_BYTES, MOST_STEPS, Chain, ChainStep
from edged.events.model import EventType, Occurrence
from edged.pods.model import PodRef, PodUid
from modules.apimachinery.types import Nanoseconds, ObjectReference

SECOND = 1_000_000_000


def occurrence(
    message: str = "Created container: main", pod: str = "web", at: int = 1, kind: str = "Pod", reason: str = "Created"
) -> Occurrence:
    about = ObjectReference(
        kind=kind, namespace="default", name=pod, uid=f"uid-{pod}", field_path="spec.containers{main}"
    )
    return Occurrence(about, EventType.NORMAL, reason, message, Nanoseconds(at * SECOND))


def found(chains: Chains, pod: str = "web") -> Chain:
    content = chains.find("default", pod)
    assert content is not None
    return decode_json(content, Chain)


def save(chains: Chains, file: ChainFile, *new: Occurrence) -> None:
    """Record steps, and write what is not written."""
    for each in new:
        chains.record(each)
    lines = chains.unwritten()
    if lines and not file.append(lines):
        file.replace(chains.everything())


def test_a_repeated_step_is_counted() -> None:
    chains = Chains()
    for at in (1, 5, 9):
        chains.record(occurrence(at=at))
    chains.record(occurrence("Started container main", reason="Started", at=10))
    assert [(step.reason, step.count, step.at, step.last, step.container) for step in found(chains).steps] == [
        ("Created", 3, 1.0, 9.0, "main"),
        ("Started", 1, 10.0, 0.0, "main"),
    ]


def test_steps_of_different_containers_are_different_ones() -> None:
    chains, one = Chains(), occurrence("Back-off restarting failed container")
    for name in "ab":
        about = replace(one.about, field_path=f"spec.containers{{{name}}}")
        chains.record(replace(one, about=about))
    assert [(step.container, step.count) for step in found(chains).steps] == [("a", 1), ("b", 1)]


def test_the_chain_of_a_name_is_its_newest_pod_s() -> None:
    """The former one may still be ending."""
    chains, one = Chains(), occurrence()
    for uid in ("first", "second"):
        chains.record(replace(one, about=replace(one.about, uid=uid)))
    assert found(chains).uid == "second"


def test_nothing_is_written_of_a_pod_that_has_no_chain() -> None:
    asked = list[float]()
    chains = Chains(wake=asked.append)
    chains.forget(PodRef(PodUid("uid-web"), "default", "web"))
    assert (chains.unwritten(), asked) == ([], [])


def test_other_objects_have_no_chain() -> None:
    chains = Chains()
    chains.record(occurrence(kind="Node"))
    assert chains.find("default", "web") is None
    assert chains.unwritten() == []


def test_the_first_steps_and_the_newest_are_kept() -> None:
    chains = Chains()
    for number in range(100):
        chains.record(occurrence(f"step {number}", at=number))
    chain = found(chains)
    texts = [step.text for step in chain.steps]
    assert len(texts) == MOST_STEPS
    assert texts[:FIRST_STEPS] == [f"step {number}" for number in range(FIRST_STEPS)]
    assert texts[-1] == "step 99"
    assert chain.left_out == 100 - MOST_STEPS


@pytest.mark.parametrize("text", ["x" * 5000, "\x01" * 5000, "\N{SNOWMAN}" * 5000])
def test_a_chain_is_bounded_in_bytes(text: str) -> None:
    chains = Chains()
    for number in range(60):
        chains.record(occurrence(f"{number} {text}", at=number))
    chain = found(chains)
    assert len(msgspec.json.encode(chain.steps)) <= MOST_BYTES
    assert chain.steps[-1].text.startswith("59 ")
    assert len(chain.steps[-1].text) == LONGEST_TEXT
    chains.record(occurrence(text[:LONGEST_TEXT]))
    assert found(chains).steps[-1].text == text[:LONGEST_TEXT], "what is just short enough is whole"
    chains.record(occurrence(reason="x" * (MOST_BYTES + 1)))
    assert [len(step.reason) for step in found(chains).steps] == [MOST_BYTES + 1], "the newest step stays in any case"


def test_a_chain_keeps_as_many_steps_as_have_room() -> None:
    chains = Chains()
    for number in range(60):
        chains.record(occurrence(f"{number:02} {'x' * 300}", at=number))
    chain = found(chains)
    sizes = {len(msgspec.json.encode(step)) for step in chain.steps[1:]}
    assert MOST_BYTES - max(sizes) - 2 <= len(msgspec.json.encode(chain.steps)) <= MOST_BYTES
    assert chain.left_out + len(chain.steps) == 60


def test_so_many_pods_have_a_chain() -> None:
    chains = Chains()
    for number in range(MOST_PODS + 3):
        chains.record(occurrence(pod=f"p{number}"))
    chains.record(occurrence("again", pod="p3"))
    assert len(chains.everything()) == MOST_PODS
    assert chains.find("default", "p2") is None
    assert found(chains, "p3").steps[-1].text == "again"
    chains.record(occurrence(pod="new"))
    gone = [pod for pod in ("p3", "p4", "p5") if chains.find("default", pod) is None]
    assert gone == ["p4"], "the one without a new step for the longest time"


def test_a_chain_that_was_dropped_does_not_come_back_when_there_is_room_for_it(tmp_path: Path) -> None:
    chains, file = Chains(), ChainFile(tmp_path)
    file.replace([])
    for number in range(MOST_PODS):
        chains.record(occurrence(pod=f"p{number}"))
    save(chains, file)
    chains.record(occurrence(pod="new"))
    chains.forget(PodRef(PodUid("uid-p1"), "default", "p1"))
    save(chains, file)
    again = Chains(ChainFile(tmp_path).read())
    assert [pod for pod in ("p0", "p1", "p2", "new") if again.find("default", pod) is not None] == ["p2", "new"]


def test_a_pod_that_is_removed_has_none_and_its_successor_its_own() -> None:
    chains = Chains()
    chains.record(occurrence())
    chains.forget(PodRef(PodUid("uid-web"), "default", "web"))
    chains.forget(PodRef(PodUid("uid-web"), "default", "web"))
    assert chains.find("default", "web") is None
    [line] = chains.unwritten()
    assert decode_json(line, Chain).steps == []


def test_new_steps_are_written_soon_and_repetitions_later() -> None:
    asked = list[float]()
    chains = Chains(wake=asked.append)
    chains.record(occurrence())
    chains.record(occurrence(pod="db"))
    assert asked == [NEW_SECONDS]
    assert len(chains.unwritten()) == 2
    chains.record(occurrence(at=2))
    chains.record(occurrence(at=3))
    assert asked == [NEW_SECONDS, REPEATED_SECONDS]
    chains.record(occurrence("else", at=3))
    assert asked == [NEW_SECONDS, REPEATED_SECONDS, NEW_SECONDS]
    chains.unwritten()
    for pod in ("web", "db"):
        chains.forget(PodRef(PodUid(f"uid-{pod}"), "default", pod))
    assert asked[3:] == [REPEATED_SECONDS], "one timer for both"
    chains.record(occurrence("new", pod="web"))
    chains.forget(PodRef(PodUid("uid-web"), "default", "web"))
    assert asked[4:] == [NEW_SECONDS], "the removal is written with the step"


def test_a_restart_finds_the_written_chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chains, file = Chains(), ChainFile(tmp_path)
    flushed = list[int]()
    monkeypatch.setattr("os.fdatasync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    assert file.read() == []
    for pod in ("web", "db", "gone"):
        save(chains, file, occurrence(pod=pod))
    chains.record(occurrence("later", at=2))
    chains.forget(PodRef(PodUid("uid-gone"), "default", "gone"))
    save(chains, file)
    assert flushed[-1] == (tmp_path / NAME).stat().st_size, "all of it is flushed"
    again = Chains(ChainFile(tmp_path).read())
    assert [step.text for step in found(again).steps] == ["Created container: main", "later"]
    assert found(again, "db").steps[0].at == 1.0
    assert again.find("default", "gone") is None
    assert again.unwritten() == []


def test_a_write_that_takes_a_part_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is nearly full, or after a signal."""
    chains, file, write = Chains(), ChainFile(tmp_path), os.write
    save(chains, file, occurrence())
    monkeypatch.setattr("os.write", lambda descriptor, data: write(descriptor, data[:7]))
    save(chains, file, occurrence("later", at=2))
    monkeypatch.undo()
    again = Chains(ChainFile(tmp_path).read())
    assert [step.text for step in found(again).steps] == ["Created container: main", "later"]


def test_of_a_file_of_others_no_more_steps_are_read_than_a_pod_has(tmp_path: Path) -> None:
    steps = [ChainStep(float(number), "Created", str(number)) for number in range(MOST_STEPS + 1)]
    line = msgspec.json.encode(Chain("uid-web", "default", "web", steps))
    (tmp_path / NAME).write_bytes(line + b"\n")
    assert len(found(Chains(ChainFile(tmp_path).read())).steps) == MOST_STEPS


def test_a_line_that_a_power_cut_has_cut_is_skipped(tmp_path: Path) -> None:
    chains, file = Chains(), ChainFile(tmp_path)
    save(chains, file, occurrence())
    save(chains, file, occurrence("lost", at=2))
    content = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(content[:-7])
    again = Chains((file := ChainFile(tmp_path)).read())
    assert [step.text for step in found(again).steps] == ["Created container: main"]
    assert all_set_aside(tmp_path) == []
    again.record(occurrence("new", at=3))
    save(again, file)
    assert [step.text for step in ChainFile(tmp_path).read()[0].steps] == ["Created container: main", "new"]


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"{}\n", b'{"uid":1}\n', b"[" * 9000 + b"\n", b"\x00" * 100 + b"\n"])
def test_a_damaged_file_is_set_aside_and_read_as_far_as_it_goes(tmp_path: Path, damage: bytes) -> None:
    chains, file = Chains(), ChainFile(tmp_path)
    save(chains, file, occurrence())
    (tmp_path / NAME).write_bytes(damage + (tmp_path / NAME).read_bytes())
    assert [chain.uid for chain in ChainFile(tmp_path).read()] == ["uid-web"]
    assert [path.name for path in all_set_aside(tmp_path)] == ["chains.1"]


def test_a_directory_in_its_place_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert ChainFile(tmp_path).read() == []
    assert [path.name for path in all_set_aside(tmp_path)] == ["chains.1"]


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chains, file = Chains(), ChainFile(tmp_path / "missing")
    for number in range(3):
        save(chains, file, occurrence(str(number)))
    assert len(caplog.records) == 1
    (tmp_path / "missing").mkdir()
    save(chains, file, occurrence("3"))
    assert [step.text for step in ChainFile(tmp_path / "missing").read()[0].steps] == ["0", "1", "2", "3"]


def test_steps_that_a_full_disk_did_not_take_are_written_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The file may have half of a line, and is rewritten. Each time that the disk is full is reported once."""
    chains, file, full = Chains(), ChainFile(tmp_path), False
    write = os.write

    def written(descriptor: int, content: memoryview) -> int:
        if full:
            write(descriptor, content[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", written)
    save(chains, file, occurrence(pod="web"))
    for pods in (("db", "queue"), ("cache", "mail")):
        full = True
        for pod in pods:
            save(chains, file, occurrence(pod=pod))
        full = False
        save(chains, file, occurrence("later", pod="web", at=2))
        assert {chain.name for chain in ChainFile(tmp_path).read()} >= {"web", *pods}
    assert len(caplog.records) == 2
    assert all_set_aside(tmp_path) == []


def test_steps_that_cannot_be_appended_are_in_the_rewritten_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains, file = Chains(), ChainFile(tmp_path)
    save(chains, file, occurrence(pod="web"))
    chains.record(occurrence(pod="db"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        assert not file.append(chains.unwritten())
    file.replace(chains.everything())
    chains.record(occurrence(pod="queue"))
    assert file.append(chains.unwritten())
    assert [chain.name for chain in ChainFile(tmp_path).read()] == ["web", "db", "queue"]


def test_the_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edged.chains.file.MOST_BYTES", 4000)
    chains, file = Chains(), ChainFile(tmp_path)
    for number in range(100):
        save(chains, file, occurrence(str(number), at=number))
        assert (tmp_path / NAME).stat().st_size <= 4000
    assert ChainFile(tmp_path).read()[0].steps[-1].text == "99"
