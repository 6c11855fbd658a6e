"""Names that an API server or a controller makes up."""

import hashlib
from typing import Final

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so no words (apimachinery's `rand`)."""
_SUFFIX: Final = 5


def ephemeral_claim_name(pod: str, volume: str) -> str:
    """Return the name of the claim that is made for a pod's volume (Kubernetes' `VolumeClaimName`)."""
    return f"{pod}-{volume}"


def suffix_of(text: str) -> str:
    """Return the five letters that end a generated name; equal texts give equal ones."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:_SUFFIX])
