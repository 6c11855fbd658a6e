"""The calls of CRI's RuntimeService on a channel."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from protos.cri.v1 import api_pb2 as cri


def runtime_calls(channel: grpc.Channel) -> dict[str, Callable[..., Any]]:
    """Return the calls with one answer, by the name of their method."""
    service = cri.DESCRIPTOR.services_by_name["RuntimeService"]
    return {
        method.name: channel.unary_unary(
            f"/{service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        for method in service.methods
        if not method.server_streaming
    }
