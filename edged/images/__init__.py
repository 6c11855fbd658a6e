"""Image names, pull policies and pulls."""

from edged.images.names import ImageName, ImageNameError, parse_image
from edged.images.pull import PullDecision, PullPolicy, default_policy, should_pull

__all__ = [
    "ImageName",
    "ImageNameError",
    "PullDecision",
    "PullPolicy",
    "default_policy",
    "parse_image",
    "should_pull",
]
