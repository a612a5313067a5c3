"""The one exception that a person's input causes."""


class UserError(ValueError):
    """A mistake in a flag, file or field: its text is one sentence that a person can act on.

    The sentence names the flag, file or field, what was found and what was expected. The commands print it without a
    stack trace and exit with status 2.
    """
