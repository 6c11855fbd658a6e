"""Namespaces of pods and CNI plug-ins."""
