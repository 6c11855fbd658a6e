"""The longer texts: a pod in YAML, its containers, a table of events, the help. Pure."""

from typing import Final

from modules.apimachinery.printing.columns import columns_of
from modules.apimachinery.printing.event_order import event_order
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.apimachinery.printing.tables import aligned
from modules.kubectl.describers.common import Related
from modules.kubectl.describers.pod import describe_pod

HELP: Final = """\
Keys in the table of pods

  ↑ ↓  j k        choose a pod; PgUp PgDn, Home End (g G) go further
  Enter  l        its logs, followed; c there: its next container
  d               its description, as of `kubectl describe`; y: the same in YAML
  x               explanation: what happened to it, and what it waits for, out of the flight recorder
  e               its events; E: the events of the whole node
  /               filter: words that name, status or reason must have; Enter keeps them, Esc clears them
  s               sort by name, status, restarts, cpu, memory, age in turn
  w               what waits: the whole list
  t               light or dark
  q  Esc          back; q in the table ends the view (Ctrl-C too)

What is shown

  Ready           of the node, as edgecore found it last; the cloud hears it when there is a link
  cpu, memory     as in `kubectl top`; per pod only where the runtime or cgroups measure it
  what waits      pods in back-off with the time that is left, images on their way, configuration that is not there,
                  messages that wait for the cloud, modules that are not ready
  inboxes         messages that wait for a module; pod workers: pods that wait for one, that have one, and that are
                  looked at again later; outbox: what edgehub holds for the cloud

Nothing here changes the node.
"""


def containers_of(pod: JsonObject) -> list[str]:
    """Return the names of a pod's containers, its init containers last."""
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return [text_at(each, "name") for kind in kinds for each in objects_at(pod, f"spec.{kind}")]


def description_of(pod: JsonObject, events: list[JsonObject] | None, now: float) -> str:
    """Return the output of `kubectl describe` for a pod, with its events unless they are None."""
    return describe_pod(pod, Related(events=events), now)


def yaml_of(pod: JsonObject) -> str:
    """Return a pod in YAML."""
    import yaml  # noqa: PLC0415 - most views do without it

    text: str = yaml.dump(pod, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def events_table(events: list[JsonObject], now: float) -> str:
    """Return events in the columns of `kubectl get events`, the oldest first."""
    if not events:
        return "no events"
    columns = [column for column in columns_of("Event") if not column.wide]
    rows = [tuple(column.title.upper() for column in columns)]
    in_order = sorted(events, key=event_order)
    rows += [tuple(str(column.cell(event, now)) for column in columns) for event in in_order]
    return "\n".join(aligned(rows))
