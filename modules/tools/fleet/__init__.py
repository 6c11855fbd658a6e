"""The fleet in words: the state of each node, and what needs somebody. Pure, for commands and the page alike."""
