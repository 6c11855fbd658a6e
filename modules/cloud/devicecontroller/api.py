"""Calls about DeviceStatuses."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from modules.apimachinery.kinds import JsonObject
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.devices import API_VERSION, DEVICE_STATUS

TIMEOUT: Final = 10.0
"""Seconds for an answer of the API server."""


def status_call(
    verb: str, namespace: str = "", name: str = "", body: JsonObject | None = None, options: JsonObject | None = None
) -> ApiCall:
    """Return a call about DeviceStatuses."""
    return ApiCall(
        verb=verb,
        api_version=API_VERSION,
        plural=DEVICE_STATUS.plural,
        namespace=namespace,
        name=name,
        body=body,
        options=options or {},
    )


def ask(module: Module, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
    """Have edgecontroller make a call; no answer is a refusal with 504."""

    def handle(answer: Message | BeehiveError) -> None:
        if isinstance(answer, Message):
            answered(answer.content_as(ApiResult))
        else:
            answered(ApiResult(refusal={"code": HTTPStatus.GATEWAY_TIMEOUT, "message": str(answer)}))

    request = module.message(api_messages.RESOURCE, Verb.CALL, call)
    module.request(ModuleName.EDGECONTROLLER, request, TIMEOUT, handle)


def code_of(result: ApiResult) -> int:
    """Return the status of a refusal, or 0."""
    return int((result.refusal or {}).get("code", 0))
