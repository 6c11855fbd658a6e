"""Tests of `modules.apimachinery.pods`."""
