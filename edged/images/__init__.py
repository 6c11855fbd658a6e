"""Images: what their names mean and when they are pulled."""

from edged.images.names import ImageName, ImageNameError, parse_image
from edged.images.policy import PullPolicy, effective_policy, should_pull

__all__ = ["ImageName", "ImageNameError", "PullPolicy", "effective_policy", "parse_image", "should_pull"]
