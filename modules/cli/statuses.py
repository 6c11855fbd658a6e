"""Exit statuses of kubectl's verbs."""

from typing import Final

REFUSED: Final = 1
"""Exit status of a command that was refused, or found nothing."""
USAGE: Final = 2
"""Exit status of a command line with unknown options or commands."""
INTERRUPTED: Final = 130
"""Exit status of a command that was ended by Ctrl-C."""
