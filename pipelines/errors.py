"""The exception for mistakes in a user's input."""


class UserError(ValueError):
    """A mistake in a flag, file or field, described in one sentence that a user can act on.

    The sentence names the flag, file or field, what was found and what was expected. The commands print it without a
    stack trace and exit with status 2.
    """
