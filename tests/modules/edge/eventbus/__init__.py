"""Tests of eventbus."""
