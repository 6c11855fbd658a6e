"""Recorded links carry frames as links do; each frame is recorded, and an incoming one begins a trace."""

import base64

import msgspec
import pytest

from beehive import Group, Message, Module, Operation, handles
from beehive.testing import Harness
from beehive.trace.entries import EntrySink
from beehive.trace.format import Direction, LinkFrame, Note, NoteKind
from beehive.trace.redact import Redactor
from edgehub.install import install
from edgehub.link import LinkFactory
from edgehub.recording import LinkRecord, RecordingLinks, _may_be_secret
from edgehub.settings import EdgeHubSettings
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.beehive.test_taps import Tape

PASSWORD = "planted-password"  # noqa: S105


class Meta(Module):
    """Takes what the hub broadcasts."""

    name = "metamanager"
    group = Group.META

    @handles()
    def take(self, message: Message) -> None:
        """Nothing to do."""


def test_frames_of_both_directions_are_recorded_and_begin_the_traces_of_what_follows() -> None:
    tape, entries, redactor = Tape(), list[LinkRecord](), Redactor()
    with Harness(taps=(tape,)) as bee:
        cloud = MemoryCloud(bee.simulation)

        def wrap(make: LinkFactory) -> LinkFactory:
            return RecordingLinks(make, EntrySink(bee.clock, redactor, bee.hive.next_span, entries.append))

        install(bee.hive, EdgeHubSettings(url="ws://cloud", node="n"), make_link=cloud.make_link, wrap=wrap)
        bee.start(Meta)
        secret = {"kind": "Secret", "data": {"a": base64.b64encode(PASSWORD.encode()).decode()}}
        message = bee.message("default/secret/s", Operation.INSERT, secret, group=Group.RESOURCE)
        cloud.send(message)
        bee.run_for(1)
        cloud.cut()
        bee.run_for(0)
    records = [entry.record(entry.time, redactor) for entry in entries]
    frames = [record for record in records if isinstance(record, LinkFrame)]
    [came] = [frame for frame in frames if frame.direction is Direction.IN]
    assert (came.connection, came.cause, came.trace) == (1, 0, came.span)
    assert PASSWORD not in redactor.text(f"is {PASSWORD}")
    content = msgspec.json.decode(came.frame)["content"]
    assert base64.b64decode(content["data"]["a"]).decode() == redactor.mark(PASSWORD.encode())
    [delivered] = [record for record in tape.records if record.message.id == message.id]
    assert (delivered.cause, delivered.trace) == (came.span, came.span)
    assert any(frame.direction is Direction.OUT and b"keepalive" in frame.frame for frame in frames)
    assert len([frame for frame in frames if frame.direction is Direction.OUT]) == len(cloud.frames)
    notes = [note for note in records if isinstance(note, Note) and note.kind == NoteKind.LINK]
    assert [note.text.partition(":")[0] for note in notes][:2] == ["up", "down"]


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        (b'{"route":{"resource":"default/serviceaccounttoken/a"}}', True),
        (b'{"route":{"resource":"default/secret/a"}}', True),
        (b'{"content":{"kind":"Secret"}}', True),
        (b'{"content":"a secret of a Secretary"}', False),
        (b'{"content":{"kind":"Pod"}}', False),
    ],
)
def test_frames_that_may_have_a_secret_are_read(text: bytes, *, may_be: bool) -> None:
    """Others cost one look."""
    assert _may_be_secret(text) is may_be
