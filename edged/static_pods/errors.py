"""Errors of static pod manifests."""

from edged.errors import EdgedError


class ManifestError(EdgedError):
    """A file that is not a valid static pod. Other files are not affected, and a pod that the file defined before keeps
    running.
    """
