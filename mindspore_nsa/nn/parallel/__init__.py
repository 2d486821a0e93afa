"""Context and tensor parallel attention: the only place with collectives."""
