"""The messages that a node must acknowledge (docs/protocol.md, "Which messages need one"; KubeEdge's noAckRequired,
rule by rule).

A KubeEdge edge acknowledges by the same table: a deviation would block a delivery for ever, or lose it silently.
"""

import re
from typing import Any

import msgspec

from beehive.decoding import decode_json
from beehive.message import Message
from beehive.names import OK, Group, ModuleName, Operation, ResourceType, Source

_NEVER_IN = re.compile("podlist|membership|twin/cloud_updated|serviceaccounttoken|k8s/ca[.]crt").search
"""Plain substrings of the resource, as in KubeEdge: an object whose name contains one is never
acknowledged.
"""

_CSI = (
    Operation.CREATE_VOLUME,
    Operation.DELETE_VOLUME,
    Operation.CONTROLLER_PUBLISH_VOLUME,
    Operation.CONTROLLER_UNPUBLISH_VOLUME,
)
_TASK_SOURCES = (ModuleName.TASKMANAGER, Source.NODE_UPGRADE_JOB_CONTROLLER)
_ANSWERED_TYPES = (
    ResourceType.LEASE,
    ResourceType.NODEPATCH,
    ResourceType.PODPATCH,
    ResourceType.PODSTATUS,
    ResourceType.CERTIFICATE_SIGNING_REQUEST,
)


def needs_acknowledgement(message: Message) -> bool:
    """Return whether a message, with its cloud resource, is resent until the node has acknowledged it."""
    route = message.route
    if _NEVER_IN(route.resource):
        return False
    if route.operation in _CSI or route.operation == Operation.APPLICATION_RESPONSE:
        return False
    if route.group == Group.USER or route.source in _TASK_SOURCES:
        return False
    is_response = route.operation == Operation.RESPONSE
    if route.source == ModuleName.EDGECONTROLLER:  # some of its messages the edge repairs by another request
        kind = message.subject_on_cloud.type
        if kind == ResourceType.NODE and route.operation != Operation.UPDATE:
            return False
        if kind in _ANSWERED_TYPES or (kind == ResourceType.POD and is_response):
            return False
    return not is_response or not _is_ok_or_error(message)


def _is_ok_or_error(message: Message) -> bool:
    content = plain_content(message)
    return content == OK or (isinstance(content, dict) and "ErrStatus" in content)


def plain_content(message: Message) -> Any:
    """Return the content as plain JSON, or None when it cannot be decoded."""
    if not isinstance(message.content, msgspec.Raw):
        return message.content
    try:
        return decode_json(message.content)
    except (msgspec.DecodeError, UnicodeError):
        return None
