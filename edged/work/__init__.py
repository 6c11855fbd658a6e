"""Which pod is worked on next, by whom, and what one turn does."""
