"""The Event with the reason why a workload's pod cannot be made."""

from collections.abc import Sequence
from typing import Protocol

from modules.apimachinery.printing.event_order import event_order
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.cli.errors import StatusError
from modules.cli.rest import path_of


class ApiReader(Protocol):
    """A reader of objects of the Kubernetes API (`RestClient`)."""

    def get(self, path: str, query: Sequence[tuple[str, str]] = ()) -> JsonObject:
        """Return the answer to a GET. Raises KubectlError."""


def refusal_of(client: ApiReader, kind: str, workload: JsonObject) -> str:
    """Return the message of the newest Event FailedCreate about a workload; empty if there is none.

    Raises:
        KubectlError: no server answers.
    """
    namespace, uid = text_at(workload, "metadata.namespace"), text_at(workload, "metadata.uid")
    fields = f"involvedObject.kind={kind},involvedObject.name={text_at(workload, 'metadata.name')},reason=FailedCreate"
    try:
        answer = client.get(path_of("api", "v1", "namespaces", namespace, "events"), (("fieldSelector", fields),))
    except StatusError:
        return ""
    events = [each for each in objects_at(answer, "items") if text_at(each, "involvedObject.uid") == uid]
    newest = max(events, key=event_order, default={})
    return text_at(newest, "message").removeprefix("Error creating: ")
