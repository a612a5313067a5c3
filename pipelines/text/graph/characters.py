"""Characters that know their neighbours, for rules that are comparisons of all characters at once, inside a graph."""

import tensorflow as tf

from fabir_tf.pipelines.text.graph.code_points import LETTER_BITS, CharacterTable, last_index


class Characters:
    """Code points cut into stretches; what is asked of a neighbour is false or 0 beyond a stretch's border.

    Args:
        code_points: int32 `(n,)`.
        classes: int32 `(n,)`, from `table`.
        starts: boolean `(n,)`, true where a stretch begins; the first one has to.
        table: what gave the classes.
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
        """Boolean `(n,)`: true where this character stands."""
        if character not in self._known:
            self._known[character] = tf.equal(self.code_points, ord(character))
        return self._known[character]

    def are_in(self, name: str) -> tf.Tensor:
        """Boolean `(n,)`: true where a character of this class stands."""
        if name not in self._known:
            self._known[name] = self._table.contains(name, self.classes)
        return self._known[name]

    def before(self, values: tf.Tensor) -> tf.Tensor:
        """The value of the character before each, `(n,)` to `(n,)`."""
        return _only(tf.roll(values, 1, 0), self._not_first)

    def after(self, values: tf.Tensor) -> tf.Tensor:
        """The value of the character after each, `(n,)` to `(n,)`."""
        return _only(tf.roll(values, -1, 0), self._not_last)

    def odd_ones(self, run: tf.Tensor) -> tf.Tensor:
        """Of each run of true values the first, third, fifth, ...; boolean `(n,)` to `(n,)`."""
        begins = run & ~self.before(run)
        place = tf.range(self.count) - last_index(begins)
        return run & tf.equal(place % 2, 0)


def _only(values: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    return values & allowed if values.dtype == tf.bool else values * tf.cast(allowed, values.dtype)
