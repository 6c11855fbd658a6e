"""What a look at the runtime found, as a recorder keeps it."""

import itertools

from beehive.trace.format import SYNCED, CriEvent
from beehive.trace.redact import Redactor
from edged.pleg.messages import PodInspection
from edged.pleg.recording import CHANGED, GONE, PodChanged, pod_changed, pod_synced
from edged.pods.model import PodFacts
from tests.edged.pleg.watch import Watch, ref


def test_a_look_outside_of_any_trace_begins_one() -> None:
    """So that what edged does about it can be found again."""
    noted = pod_changed(PodInspection(PodFacts(ref("a")), 4.0), 5.0, itertools.count(7).__next__)
    assert (noted.time, noted.span, noted.cause, noted.trace) == (5.0, 7, 0, 7)


def test_a_pod_with_containers_has_changed_and_one_without_anything_is_gone() -> None:
    """By its uid, with its facts."""
    watch = Watch()
    watch.pod("a")
    watch.sandbox("c")
    facts, nothing = watch.reader.read_pod(ref("a")), PodFacts(ref("b"))
    begun = watch.reader.read_pod(ref("c"))
    watch.stop()
    records = [PodChanged(1.0, 2, 3, 4, each).record(9.0, Redactor()) for each in (facts, begun, nothing)]
    assert [(record.kind, record.subject) for record in records] == [
        (CHANGED, "uid-a"), (CHANGED, "uid-c"), (GONE, "uid-b"),
    ]  # fmt: skip
    sizes = [PodChanged(1.0, 2, 3, 4, each).size for each in (facts, nothing)]
    assert sizes[0] > sizes[1] + 1000, "a recorder is bounded by what it keeps: a sandbox and a container"


def test_the_result_of_a_job_is_recorded_with_its_pod_only() -> None:
    """A replay finds it by its time and its pod."""
    synced = pod_synced(PodFacts(ref("a")), 5.0, itertools.count(7).__next__)
    assert synced.record(1.5, Redactor()) == CriEvent(1.5, 7, 0, 7, SYNCED, "uid-a", b"null")
