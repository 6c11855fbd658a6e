"""How the database does, as plain numbers: kept apart from the module, so that they outlive its restarts, and from
Prometheus, so that counting needs nothing loaded (`metamanager.metrics` collects them).
"""


class StoreFigures:
    """Since the process started."""

    def __init__(self) -> None:
        self.write_failures = 0
        """Changes and commits that the database did not take."""
        self.takes_changes = True
        """Whether the last one was taken."""
