"""Everything between a string and a model's inputs: tokenizers, vocabularies, vectors, processors."""
