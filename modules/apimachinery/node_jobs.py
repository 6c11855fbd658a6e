"""The jobs of nodes, as KubeEdge's `operations.kubeedge.io/v1alpha2` has them: specs, the messages between cloud and
node, and the order of a job's actions (KubeEdge's `pkg/nodetask`).
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from beehive.decoding import convert, decode_json
from modules.apimachinery.node_job_kinds import JobKind

API_VERSION: Final = "operations.kubeedge.io/v1alpha2"
LONGEST_ACTION: Final = 32
"""Characters of an action in a report, which may be one that this version does not know."""
LONGEST_REASON: Final = 2048
"""Characters of the reason of an action, and of an image's."""
ANOTHER_CHANGE: Final = "another change of this node is under way"
"""In the reason of an action that has changed nothing, because of a change that another has begun."""
OWNER_DENIES: Final = "this node's owner does not"
OWNERS_KEY: Final = "is the owner's of this node"
"""In the reason of an action that the owner of the node does not allow."""
LONGEST_EXTEND: Final = 256 * 1024
MOST_IMAGES: Final = 256
MOST_FIELDS: Final = 64
"""Keys of a configuration that one job changes."""
MOST_NODES: Final = 5000
_LONGEST: Final = 1024


class Action(StrEnum):
    """Steps of a job on a node; also the operation of the message that begins it."""

    CHECK = "Check"
    WAITING_CONFIRMATION = "WaitingConfirmation"
    BACK_UP = "BackUp"
    UPGRADE = "Upgrade"
    UPDATE = "Update"
    PULL = "Pull"
    ROLL_BACK = "RollBack"


class Next(msgspec.Struct, frozen=True):
    """The actions that follow an action; None ends the job."""

    succeeded: Action | None = None
    failed: Action | None = None


FLOWS: Final[Mapping[JobKind, Mapping[Action, Next]]] = {
    JobKind.NODE_UPGRADE: {
        Action.CHECK: Next(Action.WAITING_CONFIRMATION),
        Action.WAITING_CONFIRMATION: Next(Action.BACK_UP),
        Action.BACK_UP: Next(Action.UPGRADE),
        Action.UPGRADE: Next(None, Action.ROLL_BACK),
        Action.ROLL_BACK: Next(),
    },
    JobKind.IMAGE_PRE_PULL: {Action.CHECK: Next(Action.PULL), Action.PULL: Next()},
    JobKind.CONFIG_UPDATE: {
        Action.CHECK: Next(Action.BACK_UP),
        Action.BACK_UP: Next(Action.UPDATE),
        Action.UPDATE: Next(None, Action.ROLL_BACK),
        Action.ROLL_BACK: Next(),
    },
}
"""By kind, the actions in order; each job begins with Check."""

_NAME: Final = r"[A-Za-z0-9._-]{1,253}"
_RESOURCE: Final = re.compile(rf"{re.escape(API_VERSION)}/([a-z]{{1,32}})/({_NAME})/node/({_NAME})")
_BY_TOKEN: Final = {kind.lower(): kind for kind in JobKind}


class JobAddress(msgspec.Struct, frozen=True):
    """A job on a node."""

    kind: JobKind
    name: str
    node: str

    @classmethod
    def read(cls, resource: str) -> "JobAddress | None":
        """Return the job on a node that a message is about; None if it is about none."""
        found = _RESOURCE.fullmatch(resource)
        kind = _BY_TOKEN.get(found[1]) if found is not None else None
        return cls(kind, found[2], found[3]) if found is not None and kind is not None else None

    @property
    def resource(self) -> str:
        """The resource of its messages."""
        return f"{API_VERSION}/{self.kind.lower()}/{self.name}/node/{self.node}"


Text = Annotated[str, msgspec.Meta(max_length=_LONGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Names = Annotated[list[Text], msgspec.Meta(max_length=MOST_NODES)]
_Items = Annotated[list[Text], msgspec.Meta(max_length=16)]


class JobTargets(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a spec that all kinds have. None is absent."""

    node_names: _Names | None = None
    label_selector: dict[str, Any] | None = None
    timeout_seconds: Count | None = None
    concurrency: Count | None = None
    failure_tolerate: Text | None = None
    check_items: _Items | None = None


class UpgradeSpec(JobTargets, frozen=True, rename="camel"):
    """Of a NodeUpgradeJob."""

    version: Text = ""
    image: Text | None = None
    image_digest_gatter: dict[str, Any] | None = None
    """The name is KubeEdge's."""
    require_confirmation: bool | None = None


class PrePullTemplate(JobTargets, frozen=True, rename="camel"):
    """Of an ImagePrePullJob."""

    images: Annotated[list[Text], msgspec.Meta(max_length=MOST_IMAGES)] | None = None
    image_secrets: Text | None = None
    """`NAMESPACE/NAME` of one pull secret."""
    retry_times: Count | None = None


class ConfigSpec(JobTargets, frozen=True, rename="camel"):
    """Of a ConfigUpdateJob."""

    update_fields: Annotated[dict[Text, Text], msgspec.Meta(max_length=MOST_FIELDS)] | None = None


JobSpec = UpgradeSpec | PrePullTemplate | ConfigSpec
TEMPLATE: Final = "imagePrePullTemplate"
"""The only member of an ImagePrePullJob's spec."""


class JobSpecError(ValueError):
    """A spec that cannot be read."""


def read_spec(kind: JobKind, content: object) -> JobSpec:
    """Return a job's spec, from an object or the content of a message. Raises JobSpecError."""
    if not isinstance(content, Mapping):
        raise JobSpecError("the job's spec is no object")
    try:
        match kind:
            case JobKind.NODE_UPGRADE:
                return convert(content, UpgradeSpec)
            case JobKind.IMAGE_PRE_PULL:
                return convert(content.get(TEMPLATE) or {}, PrePullTemplate)
            case JobKind.CONFIG_UPDATE:
                return convert(content, ConfigSpec)
    except msgspec.ValidationError as error:
        raise JobSpecError(f"the job's spec cannot be read: {error}") from error


class ActionReport(msgspec.Struct, frozen=True, rename="camel"):
    """The content of a node's message about an action that has ended."""

    action: Annotated[str, msgspec.Meta(max_length=LONGEST_ACTION)]
    succ: bool
    finish_time: Annotated[str, msgspec.Meta(max_length=64)] = ""
    reason: str = ""
    extend: Annotated[str, msgspec.Meta(max_length=LONGEST_EXTEND)] = ""
    """The versions before and after as `FROM,TO`, or the images as JSON (`ImageResult`)."""


class ImageResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of an image's pull, also in the status of an ImagePrePullJob."""

    image: Text
    status: str
    """True or False."""
    reason: str = ""


def read_images(extend: str) -> list[ImageResult]:
    """Return the results of a pull, as many as a job may have; none if they cannot be read."""
    try:
        found = decode_json(extend.encode() or b"[]", list[ImageResult])[:MOST_IMAGES]
    except (msgspec.DecodeError, UnicodeError):
        return []
    return [ImageResult(each.image, each.status[:5], each.reason[:LONGEST_REASON]) for each in found]
