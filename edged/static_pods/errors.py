"""What can be wrong with a file of the static pods' directory."""

from edged.errors import EdgedError


class ManifestError(EdgedError):
    """A file that is no pod. The others are not concerned, and what ran from it before is left running."""
