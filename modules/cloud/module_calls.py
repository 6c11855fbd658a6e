"""Calls of the Kubernetes API by a module of the cloud: edgecontroller makes them."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult

TIMEOUT: Final = 10.0
"""Seconds for an answer of the API server."""
PERMANENT: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""Codes of refusals that no further attempt changes."""


def ask(module: Module, call: ApiCall, answered: Callable[[ApiResult], None], seconds: float = TIMEOUT) -> None:
    """Have edgecontroller make a call; no answer is a refusal with 504."""

    def handle(answer: Message | BeehiveError) -> None:
        if isinstance(answer, Message):
            answered(answer.content_as(ApiResult))
        else:
            answered(ApiResult(refusal={"code": HTTPStatus.GATEWAY_TIMEOUT, "message": str(answer)}))

    request = module.message(api_messages.RESOURCE, Verb.CALL, call)
    module.request(ModuleName.EDGECONTROLLER, request, seconds, handle)


def code_of(result: ApiResult) -> int:
    """Return the status of a refusal, or 0."""
    return int((result.refusal or {}).get("code", 0))
