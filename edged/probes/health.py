"""The two messages of grpc.health.v1, encoded by hand: a generated module would cost the agent more than they weigh.

HealthCheckRequest has `string service = 1`, HealthCheckResponse `ServingStatus status = 1`.
"""

METHOD = "/grpc.health.v1.Health/Check"

_SERVICE = 0x0A
"""Field 1, length-delimited."""
_STATUS = 0x08
"""Field 1, varint."""
_SERVING = 1


def encode_request(service: str) -> bytes:
    """Return a HealthCheckRequest."""
    name = service.encode()
    return bytes([_SERVICE]) + _varint(len(name)) + name if name else b""


def says_serving(answer: bytes) -> bool:
    """Whether a HealthCheckResponse has the status SERVING. The status 0 (UNKNOWN) is not encoded at all."""
    return answer[:2] == bytes([_STATUS, _SERVING])


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7)
