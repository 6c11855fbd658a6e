"""The pull policy of containers: whether an image is pulled, used or refused."""

from enum import Enum, StrEnum

from modules.apimachinery.image_names import parse_image


class PullPolicy(StrEnum):
    """Kubernetes' three policies."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class PullDecision(Enum):
    """Decision to pull an image, use the present one, or refuse it; REFUSE is reported as ErrImageNeverPull."""

    PULL = "pull"
    USE = "use"
    REFUSE = "refuse"


def default_policy(image: str) -> PullPolicy:
    """Return the pull policy of a container without one: Always for the tag `latest`, also beside a digest, and for
    neither tag nor digest, otherwise IfNotPresent.

    An API server fills it in; pods from elsewhere come without. Raises ImageNameError.
    """
    return PullPolicy.ALWAYS if parse_image(image).tag == "latest" else PullPolicy.IF_NOT_PRESENT


def should_pull(policy: str, image: str, *, present: bool) -> PullDecision:
    """Decide by the policy ("" for the default) and the image's presence on the node. Raises ImageNameError."""
    chosen = policy or default_policy(image)
    if chosen == PullPolicy.ALWAYS:
        return PullDecision.PULL
    if present:
        return PullDecision.USE
    return PullDecision.REFUSE if chosen == PullPolicy.NEVER else PullDecision.PULL
