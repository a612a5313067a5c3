"""Words, characters and positions as vectors."""
