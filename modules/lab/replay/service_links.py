"""The variables of Services in a replay, which has no edgemesh."""

from collections.abc import Callable, Mapping

from beehive.decoding import convert
from beehive.simulation import Simulation
from beehive.trace import Note
from edged.errors import ConfigError
from edged.node.recording import MACHINE_NOTES, ServiceVariables, links_wanted
from modules.apimachinery.types import Pod
from modules.lab.replay.sequences import RecordedAnswer, Sequences


def recorded_service_links(simulation: Simulation, notes: list[Note]) -> Callable[[Pod], Mapping[str, str]] | None:
    """Return what gives each pod the answer that was recorded at that time, and takes as long (`Host.service_links`).

    Args:
        simulation: of the replay.
        notes: notes of the trace, in their order.

    Returns:
        None if nobody asked: then the node had no Services.
    """
    found = [(n.time, convert(n.data, ServiceVariables)) for n in notes if n.text == MACHINE_NOTES.services]
    answers = Sequences(
        (each.uid or (each.namespace, each.enabled), RecordedAnswer(time - each.seconds, time, each))
        for time, each in found
    )

    def links(pod: Pod) -> Mapping[str, str]:
        now = simulation.clock.monotonic()
        answer = answers.query(pod.metadata.uid, now) or answers.query(links_wanted(pod), now)
        if answer is None:
            return {}
        if answer.end > now:
            over = simulation.future()
            simulation.clock.after(answer.end - now, over.set)
            over.get()
        if answer.value.error is not None:
            attempt, on, hint, retryable = answer.value.error
            raise ConfigError(attempt, on, hint, retryable=retryable)
        return answer.value.variables

    return links if found else None
