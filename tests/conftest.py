"""What holds for all tests: a slow machine fails none of them."""

from hypothesis import settings

settings.register_profile("edgecore", deadline=None)
settings.load_profile("edgecore")
