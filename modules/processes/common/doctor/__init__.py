"""Results of the checks of `doctor`, and their report."""
