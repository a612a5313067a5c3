"""`pipelines.text.invisible` with TensorFlow operations only."""

import tensorflow as tf

from fabir_tf.pipelines.text.graph.code_points import CharacterTable, positions


def separators_as_spaces(code_points: tf.Tensor, classes: tf.Tensor, table: CharacterTable) -> tf.Tensor:
    """Replaces separating marks by spaces, whose classes the table gives them; int32 `(n,)` to int32 `(n,)`."""
    return tf.where(tf.equal(classes, table.space), ord(" "), code_points)


def without_joiners_at_edges(starts: tf.Tensor, ends: tf.Tensor, is_joiner: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts joiners off the beginning and the end of tokens; a token of joiners only is left out.

    Args:
        starts, ends: int64 `(tokens,)`, where each token begins and ends among all characters.
        is_joiner: boolean `(n,)`, for each character.

    Returns:
        Starts and ends of the tokens that are left.
    """
    seen = ~is_joiner
    # How many other characters there are before each character, and where they are.
    count = tf.concat([[0], tf.cumsum(tf.cast(seen, tf.int64))], 0)
    places = tf.concat([[-1], positions(seen), [tf.size(seen, tf.int64)]], 0)
    starts = tf.gather(places, tf.gather(count, starts) + 1)
    ends = tf.gather(places, tf.gather(count, ends)) + 1
    left = positions(starts < ends)
    return tf.gather(starts, left), tf.gather(ends, left)
