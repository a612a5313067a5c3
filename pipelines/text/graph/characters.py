"""Characters with access to their neighbors, for rules that compare all characters of a batch at once in a graph."""

import tensorflow as tf

from fabir_tf.pipelines.text.graph.code_points import LETTER_BITS, CharacterTable, last_index


class Characters:
    """Code points divided into segments; the neighbor across a segment boundary has the value false or 0.

    Args:
        code_points: int32 `(n,)`.
        classes: int32 `(n,)`, from `table`.
        starts: boolean `(n,)`, true at the first character of each segment; the first value must be true.
        table: the table that gave the classes.
    """

    def __init__(self, code_points: tf.Tensor, classes: tf.Tensor, starts: tf.Tensor, table: CharacterTable):
        self.code_points = code_points
        self.classes = classes
        self.starts = starts
        self.ends = tf.concat([starts, [True]], 0)[1:]
        self.letters = tf.bitwise.bitwise_and(classes, (1 << LETTER_BITS) - 1)
        self._not_first, self._not_last = ~self.starts, ~self.ends
        self._table = table
        self._known: dict[str, tf.Tensor] = {}

    @property
    def count(self) -> tf.Tensor:
        return tf.size(self.code_points, tf.int64)

    def are(self, character: str) -> tf.Tensor:
        """Boolean `(n,)`: true at each occurrence of the character."""
        if character not in self._known:
            self._known[character] = tf.equal(self.code_points, ord(character))
        return self._known[character]

    def are_in(self, name: str) -> tf.Tensor:
        """Boolean `(n,)`: true at each character of the class."""
        if name not in self._known:
            self._known[name] = self._table.contains(name, self.classes)
        return self._known[name]

    def before(self, values: tf.Tensor) -> tf.Tensor:
        """The values of the previous characters, `(n,)` to `(n,)`."""
        return _only(tf.roll(values, 1, 0), self._not_first)

    def after(self, values: tf.Tensor) -> tf.Tensor:
        """The values of the next characters, `(n,)` to `(n,)`."""
        return _only(tf.roll(values, -1, 0), self._not_last)

    def odd_ones(self, run: tf.Tensor) -> tf.Tensor:
        """Keeps the first, third, fifth, ... value of each run of true values; boolean `(n,)` to `(n,)`."""
        begins = run & ~self.before(run)
        index_in_run = tf.range(self.count) - last_index(begins)
        return run & tf.equal(index_in_run % 2, 0)


def _only(values: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    return values & allowed if values.dtype == tf.bool else values * tf.cast(allowed, values.dtype)
