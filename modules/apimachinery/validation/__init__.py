"""The validation of the API server's kinds, in the words of kube-apiserver 1.32.

`modules.apimachinery.validation` has the language of the rules, and the rules of pods; here are the other kinds, and updates.
"""
