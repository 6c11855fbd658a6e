"""CRI's streamed listings (StreamContainers and others): the answer of the listing of the same name, in small messages.

A client that lists this way is not limited by the size of one gRPC message.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.message_factory import GetMessageClass

from protos.cri.v1 import api_pb2 as cri

_ITEMS: Final = 64
"""Items in one message."""

_LISTINGS: Final = {
    "StreamPodSandboxes": ("ListPodSandbox", "items"),
    "StreamContainers": ("ListContainers", "containers"),
    "StreamContainerStats": ("ListContainerStats", "stats"),
    "StreamPodSandboxStats": ("ListPodSandboxStats", "stats"),
    "StreamPodSandboxMetrics": ("ListPodSandboxMetrics", "pod_metrics"),
    "StreamImages": ("ListImages", "images"),
}
"""By streamed method, the listing whose request has the same fields, and the field of the answer that it sends."""


def streamed_listings(
    service: str, methods: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Callable[[Any], Iterator[Any]]]:
    """Return the streamed methods of a service (`RuntimeService` or `ImageService`) whose listings are in `methods`."""
    known = cri.DESCRIPTOR.services_by_name[service].methods_by_name
    return {
        name: _streamed(methods[listing], field, GetMessageClass(known[name].output_type))
        for name, (listing, field) in _LISTINGS.items()
        if name in known and listing in methods
    }


def _streamed(listing: Callable[[Any], Any], field: str, answer: type[Any]) -> Callable[[Any], Iterator[Any]]:
    into = answer.DESCRIPTOR.fields[0].name

    def stream(request: Any) -> Iterator[Any]:
        items = getattr(listing(request), field)
        for at in range(0, len(items), _ITEMS):
            yield answer(**{into: items[at : at + _ITEMS]})

    return stream
