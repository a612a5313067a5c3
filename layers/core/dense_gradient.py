"""The gradient of a table of vectors, the same on every backend."""


def dense_gradient(table):
    """Returns the table itself, with a gradient that has one row for each row of the table.

    On TensorFlow, a looked-up table has a sparse gradient with one entry for each look-up. Keras' Adam adds the squares
    of these entries instead of squaring their sum, so the steps of a frequent row are many times too long.

    Args:
        table: a weight `(rows, features)`.

    Returns:
        A tensor of the same values.
    """
    return table * 1.0
