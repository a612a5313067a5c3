"""Questions, passages and answers: reading files, and the official metrics."""
