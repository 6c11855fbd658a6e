"""The fleet in words: the state of each node, and what needs attention. Pure, for commands and the page alike."""
