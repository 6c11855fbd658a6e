"""Admission plug-ins of the embedded API server: kube-apiserver's default ones, as far as they apply here."""
