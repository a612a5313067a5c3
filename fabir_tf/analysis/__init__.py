"""What a reader gets right and wrong: scores by kind of question, certainty, and lists of errors."""
