"""gRPC's statuses without its library."""

import grpc

from protos.status import StatusCode


def test_the_statuses_are_grpc_s() -> None:
    assert {each.name: each.value for each in StatusCode} == {each.name: each.value[0] for each in grpc.StatusCode}
