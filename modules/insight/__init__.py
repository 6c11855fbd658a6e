"""Answers for people: the state of a fleet, and why a pod does not run."""
