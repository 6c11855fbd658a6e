"""What a look at the runtime found, as a recorder keeps it."""

import itertools

from beehive.trace.format import CriEvent
from beehive.trace.redact import Redactor
from edged.pleg.messages import PodInspection
from edged.pleg.recording import CHANGED, GONE, PodChanged, pod_changed
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
    facts, nothing = watch.reader.read_pod(ref("a")), PodFacts(ref("b"))
    watch.stop()
    records = [PodChanged(1.0, 2, 3, 4, each).record(9.0, Redactor()) for each in (facts, nothing)]
    assert all(isinstance(record, CriEvent) for record in records)
    assert [record.kind for record in records if isinstance(record, CriEvent)] == [CHANGED, GONE]
    sizes = [PodChanged(1.0, 2, 3, 4, each).size for each in (facts, nothing)]
    assert sizes[0] > sizes[1] + 1000, "a recorder is bounded by what it keeps: a sandbox and a container"
