"""The exception for mistakes in a user's input."""


class UserError(ValueError):
    """A mistake in a flag, file or field, described in one sentence that a user can act on.

    The sentence names the flag, file or field, what was found and what was expected. The commands print it without a
    stack trace and exit with status 2.
    """


class QuestionError(UserError):
    """One question cannot be read, while others beside it can.

    Args:
        question: its id.
        reason: what was found, and what was expected.
    """

    def __init__(self, question: str, reason: str):
        super().__init__(f"question {question}: {reason}")
        self.question = question
        self.reason = reason
