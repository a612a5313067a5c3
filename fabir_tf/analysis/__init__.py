"""What a reader gets right and wrong: scores by kind of question, their certainty, and the errors to read."""
