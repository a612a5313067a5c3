"""From a processed passage to logits, and from logits to spans."""
