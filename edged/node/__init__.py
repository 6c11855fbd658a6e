"""The node itself: what the machine is, how it registers, what it reports."""
