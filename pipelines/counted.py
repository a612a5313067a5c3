"""Numbers of things in messages."""


def counted(number: int, noun: str) -> str:
    """A number and its noun, such as "1 question" and "2,000 questions".

    Args:
        number: of the things.
        noun: the word for one of them, whose plural has an s.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
