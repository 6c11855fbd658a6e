"""Users by the tokens of an identity provider (OpenID Connect)."""
