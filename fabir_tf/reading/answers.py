"""What a reader says: a span of the passage, or that the passage holds no answer."""
