"""Tests of ResourceQuotas."""
