"""When an image is pulled (kubelet's shouldPullImage)."""

from enum import StrEnum

from edged.images.names import parse_image


class PullPolicy(StrEnum):
    """A container's imagePullPolicy."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def effective_policy(policy: str, image: str) -> PullPolicy:
    """The policy, and where the pod has none the API server's default: Always for `:latest`, else
    IfNotPresent.

    A policy that is not known counts as none. Raises ImageNameError.
    """
    if policy in tuple(PullPolicy):
        return PullPolicy(policy)
    name = parse_image(image)
    return PullPolicy.ALWAYS if name.tag == "latest" and not name.digest else PullPolicy.IF_NOT_PRESENT


def should_pull(policy: PullPolicy, *, present: bool) -> bool:
    """Whether to pull now; with Never an image that is absent is an error and not pulled."""
    return policy is PullPolicy.ALWAYS or (policy is PullPolicy.IF_NOT_PRESENT and not present)
