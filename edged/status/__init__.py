"""Statuses of pods: generated from facts, and sent to the cloud."""
