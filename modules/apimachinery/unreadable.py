"""The error of texts in another form than Kubernetes' API wants."""

from beehive.errors import AttemptError


class UnreadableError(AttemptError):
    """A quantity, a time, an image's name or a document that cannot be read; the hint says which form is wanted."""
