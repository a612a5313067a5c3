"""The order of training: batches of passages of like length, every example once per epoch."""

import itertools

import numpy as np

# Most batches whose examples are sorted by their questions before they are cut apart: few, so that epochs differ.
SORTED_BATCHES = 4


class LengthBucketSampler:
    """Batches drawn inside groups of equal population and like length.

    Examples are sorted by length and cut into groups of equal size. In every epoch each group is shuffled and cut
    into batches of equal size, or one more, where those that stay together allow it, and the batches of all groups
    are run in random order. Nothing is dropped. The order is a function of the seed and the epoch's number alone, so
    a run can be taken up at any batch. With the questions' lengths, the examples of every few batches of a group are
    sorted by them before they are cut: by chance alone the longest question of a batch is twice as long as the
    others.

    Args:
        lengths: int array `(examples,)`, tokens of each example's passage.
        batch_size: examples in a batch: at most, or where several stay together, about as many.
        groups: number of groups; fewer where batches would be left half empty.
        seed: of the order.
        together: int array `(examples,)`; examples of the same number have the same length and stay in one batch. None
            lets all part.
        question_lengths: int array `(examples,)`, tokens of each example's question. None leaves them to chance.

    Reference: FABIR section IV-B; thesis section 6.2 (30 groups, 2.5 times faster than mixed batches).
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        groups: int = 30,
        seed: int = 0,
        together: np.ndarray | None = None,
        question_lengths: np.ndarray | None = None,
    ):
        self.seed = seed
        self._batch_size = batch_size
        self._question_lengths = np.zeros_like(lengths) if question_lengths is None else question_lengths
        together = np.arange(len(lengths)) if together is None else together
        order = np.lexsort((together, lengths))
        borders = np.flatnonzero(np.diff(together[order])) + 1
        batches = max(1, -(-len(lengths) // batch_size))
        # A group that holds a little more than one batch would make two of half the size.
        most = -(-batches // groups)
        # Groups of blocks, a block being the examples that stay together.
        self._groups = [group for group in _cut(np.split(order, borders), -(-batches // most)) if group]
        self._cuts = [min(_number_of_batches(group, batch_size), most) for group in self._groups]

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch, the same in each."""
        return sum(self._cuts)

    def epoch(self, number: int) -> list[np.ndarray]:
        """The batches of one epoch.

        Args:
            number: the epoch, counted from 0.

        Returns:
            `batches_per_epoch` int64 arrays of example numbers.
        """
        random = np.random.default_rng([self.seed, number])
        batches = []
        for group, cuts in zip(self._groups, self._cuts, strict=True):
            shuffled = [group[i] for i in random.permutation(len(group))]
            batches += [np.concatenate(blocks) for blocks in _fill(self._by_questions(shuffled, cuts), cuts)]
        return [batches[i] for i in random.permutation(len(batches))]

    def _by_questions(self, blocks: list[np.ndarray], cuts: int) -> list[np.ndarray]:
        # Half of the group at most: sorted as a whole it would have the same batches in every epoch.
        together = min(SORTED_BATCHES, cuts // 2)
        if together < 2:
            return blocks
        sizes = np.array([len(block) for block in blocks])
        stretches = (np.cumsum(sizes) - sizes) // (together * self._batch_size)
        longest = np.maximum.reduceat(self._question_lengths[np.concatenate(blocks)], np.cumsum(sizes) - sizes)
        # Up and down in turn: a batch that lies in two stretches has like questions, too.
        return [blocks[i] for i in np.lexsort((np.where(stretches % 2, -longest, longest), stretches))]


def _number_of_batches(blocks: list[np.ndarray], batch_size: int) -> int:
    """As many as `batch_size` asks for, but none so small that a long block could leave no example to it."""
    sizes = [len(block) for block in blocks]
    return max(1, min(-(-sum(sizes) // batch_size), sum(sizes) // max(sizes)))


def _cut(blocks: list[np.ndarray], parts: int) -> list[list[np.ndarray]]:
    """Cuts a list of blocks into parts of nearly as many examples: a block goes where its middle lies."""
    sizes = np.array([len(block) for block in blocks])
    ends = np.cumsum([len(part) for part in np.array_split(np.arange(sizes.sum()), parts)])
    places = np.searchsorted(ends, np.cumsum(sizes) - 1 - sizes // 2, side="right")
    borders = np.searchsorted(places, np.arange(parts + 1))
    return [blocks[begin:end] for begin, end in itertools.pairwise(borders)]


def _fill(blocks: list[np.ndarray], batches: int) -> list[list[np.ndarray]]:
    """Batches of equally many examples, or one more, as far as the blocks allow; the order is kept where it can be.

    A batch as large as others, of like length, is computed by kernels that are compiled already.
    """
    filled = []
    for remaining in range(batches, 0, -1):
        sizes = [len(block) for block in blocks]
        chosen = _adding_up_to(sum(sizes) // remaining, sizes) if remaining > 1 else range(len(blocks))
        filled.append([blocks[place] for place in chosen])
        gone = set(chosen)
        blocks = [block for place, block in enumerate(blocks) if place not in gone]
    return filled


def _adding_up_to(total: int, sizes: list[int]) -> list[int]:
    """Places of sizes with a sum, or with the next lower one that there is, out of the fewest of the first ones."""
    # Bit s says that some of the sizes looked at so far add up to s.
    sums = [1]
    for size in sizes:
        sums.append((sums[-1] | sums[-1] << size) & (2 << total) - 1)
        if sums[-1] >> total & 1:
            break
    left = sums[-1].bit_length() - 1
    chosen = []
    for place in reversed(range(len(sums) - 1)):
        if not sums[place] >> left & 1:
            chosen.append(place)
            left -= sizes[place]
    return chosen[::-1]
