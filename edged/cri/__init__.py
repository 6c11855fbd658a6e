"""Container runtimes: edged's contract for them, and the gRPC client.

`ContainerRuntime` is the contract, `CriError` is the root of its errors. `client.CriClient` implements the contract
over a socket. It is not imported here: it loads protobuf and the messages of CRI, 2.5 MB.
"""

from edged.cri.contract import ContainerId, ContainerRuntime, ExecResult, ImageRef, SandboxId, StreamingUrl, Streams
from edged.cri.errors import (
    AlreadyExistsError,
    ConnectionClosedError,
    CriError,
    DeadlineExceededError,
    ExhaustedError,
    InvalidRequestError,
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnimplementedError,
)

__all__ = [
    "AlreadyExistsError",
    "ConnectionClosedError",
    "ContainerId",
    "ContainerRuntime",
    "CriError",
    "DeadlineExceededError",
    "ExecResult",
    "ExhaustedError",
    "ImageRef",
    "InvalidRequestError",
    "NotFoundError",
    "RefusedError",
    "SandboxId",
    "StreamingUrl",
    "Streams",
    "UnavailableError",
    "UnimplementedError",
]
