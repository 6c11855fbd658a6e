"""metamanager behind the real edgehub, in simulation: a cloud that pushes, answers, falls silent and comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from beehive import Group, Message, ModuleName, Operation, ResourceType, decode
from beehive.testing import Harness
from edgehub.install import install
from edgehub.settings import EdgeHubSettings
from metamanager import answers
from metamanager.client import MetaClient, NotConnectedError, RejectedError
from metamanager.module import MetaManager, MetaSettings
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.metamanager.support import META, from_edged, store_of, thing


class Cloud:
    """What is at the other end of the link: it answers every question with an object, unless it is silent."""

    def __init__(self, bee: Harness) -> None:
        self.bee = bee
        self.silent = False
        self.memory = MemoryCloud(bee.simulation, on_frame=self._took)

    def push(self, resource: str, operation: str, content: object) -> Message:
        """Send an object down."""
        message = self.bee.message(
            resource, operation, content, source=ModuleName.EDGECONTROLLER, group=Group.RESOURCE, resourceversion="1"
        )
        self.memory.send(message)
        self.bee.settle()
        return message

    def acknowledged(self) -> set[str]:
        """Ids of what the node has said OK to."""
        return {message.parent_id for message in self.memory.messages() if message.route.operation == "response"}

    def _took(self, frame: bytes) -> None:
        question = decode(frame)
        if not self.silent and question.route.source == ModuleName.EDGED and question.route.operation != "update":
            answer = question.reply(self.bee.clock, {"Object": thing(x=1), "Err": None}, source="edgecontroller")
            self.memory.send(answer.with_route(group=Group.RESOURCE))


@contextmanager
def node(path: Path | None = None, *, online: bool = True) -> Iterator[tuple[Harness, Cloud]]:
    """A node with a link to the cloud."""
    with TemporaryDirectory() as directory, Harness() as bee:
        cloud = Cloud(bee)
        cloud.memory.refusing = not online
        bee.add(MetaManager, MetaSettings(str(path or Path(directory) / "edgecore.db")))
        settings = EdgeHubSettings(url="ws://cloud/p/n/events", node="n", max_frame_bytes=100_000)
        install(bee.hive, settings, make_link=cloud.memory.make_link)
        bee.start()
        yield bee, cloud


def changed(bee: Harness, resource: str, operation: str, content: object) -> bytes | None:
    """Return the answer to a change that edged asks for; raise its error."""
    return answers.read_object_or_ok(bee.ask(META, from_edged(bee, resource, operation, content)))


def test_pushed_objects_are_stored_and_acknowledged_over_the_wire() -> None:
    """And comes into edged's inbox."""
    with node() as (bee, cloud):
        message = cloud.push("default/pod/a", Operation.INSERT, thing())
        assert message.id in cloud.acknowledged()
        assert len(bee.sent_to(ModuleName.EDGED)) == 1
        assert store_of(bee).get_all(ResourceType.POD) != []


def test_a_question_goes_over_the_wire_and_its_answer_is_acknowledged() -> None:
    """The answer's acknowledgement names the cloud's message."""
    with node() as (bee, cloud):
        text = MetaClient(bee.hive).get(ResourceType.CONFIGMAP, "default", "a")
        bee.settle()
        assert b'"x":1' in text
        assert len(cloud.acknowledged()) == 1
        cloud.memory.frames.clear()
        assert MetaClient(bee.hive).get(ResourceType.CONFIGMAP, "default", "a") == text
        assert cloud.memory.frames == []


def test_a_node_without_a_cloud_refuses_immediately_and_answers_from_its_store(tmp_path: Path) -> None:
    """What one run has got is there in the next, offline."""
    with node(tmp_path / "edgecore.db") as (bee, _cloud):
        before = MetaClient(bee.hive).get(ResourceType.NODE, "", "n")
    with node(tmp_path / "edgecore.db", online=False) as (bee, cloud):
        meta, begin = MetaClient(bee.hive), bee.clock.monotonic()
        assert meta.get(ResourceType.NODE, "", "n") == before
        with pytest.raises(NotConnectedError):
            changed(bee, "null/nodepatch/n", Operation.PATCH, "{}")
        assert bee.clock.monotonic() == begin
        cloud.memory.refusing = False
        bee.run_for(120)
        assert changed(bee, "null/nodepatch/n", Operation.PATCH, "{}")


def test_a_cut_link_ends_the_wait_for_an_answer() -> None:
    """Long before the minute is over."""
    with node() as (bee, cloud):
        cloud.silent = True
        begin = bee.clock.monotonic()
        bee.clock.after(1, cloud.memory.cut)
        with pytest.raises(NotConnectedError):
            MetaClient(bee.hive).get(ResourceType.CONFIGMAP, "default", "a")
        assert bee.clock.monotonic() - begin < 5


def test_an_answer_after_the_deadline_is_still_kept() -> None:
    """The hub makes an update of it; the next question needs no cloud."""
    with node() as (bee, cloud):
        cloud.silent = True
        with pytest.raises(Exception, match="no answer"):
            MetaClient(bee.hive).get(ResourceType.CONFIGMAP, "default", "a")
        question = next(message for message in cloud.memory.messages() if message.route.operation == Operation.QUERY)
        late = question.reply(bee.clock, thing(x=2), source="edgecontroller").with_route(group=Group.RESOURCE)
        cloud.memory.send(late.with_header(resourceversion="7"))
        bee.settle()
        assert late.id in cloud.acknowledged()
        assert b'"x":2' in MetaClient(bee.hive).get(ResourceType.CONFIGMAP, "default", "a")


def test_what_will_never_fit_is_refused_for_good() -> None:
    """The hub's word on size reaches who asked, as an error that trying again does not help."""
    with node() as (bee, _cloud), pytest.raises(RejectedError) as caught:
        changed(bee, "default/pod/a", Operation.INSERT, thing(x="y" * 200_000))
    assert not caught.value.retryable


def test_a_status_waits_for_the_cloud() -> None:
    """edged gets its OK immediately; the newest status of each pod reaches the cloud when it is back."""
    with node(online=False) as (bee, cloud):
        for number in range(3):
            status = {"UID": "u", "Name": "a", "Status": {"n": number}}
            assert changed(bee, "default/podstatus/a", Operation.UPDATE, status) is None
        cloud.memory.refusing = False
        bee.run_for(120)
        sent = [message for message in cloud.memory.messages() if message.route.operation == Operation.UPDATE]
        assert [message.content_as(dict)["Status"]["n"] for message in sent] == [2]
        assert store_of(bee).get("default/podstatus/a") is not None
        assert bee.hive.restarts()[META] == 0
