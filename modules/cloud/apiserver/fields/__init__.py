"""The field names of the kinds that the API server serves, and the validation of manifests by them."""
