"""Why a row has failed before its screens were looked at."""


class WalkError(Exception):
    """A step of a walk did not do what its user wants; the text says which, and what was printed."""


class InstallError(Exception):
    """An installation did not come up; the text says why."""
