"""The order of training: batches of passages of similar length, every example once per epoch."""

import itertools

import numpy as np

# Batches whose examples are sorted by question length together: few, so that epochs differ.
SORTED_BATCHES = 4


class LengthBucketSampler:
    """Draws batches inside buckets of equal size and similar length.

    Examples are sorted by length and cut into buckets of equal size. In every epoch each bucket is shuffled and cut
    into batches of equal size (or one more, where group ids allow it), and the batches of all buckets come in random
    order. Nothing is dropped. The order depends on the seed and on the number of the epoch alone, so a run can be
    resumed at any batch. With question lengths, the examples of every few batches of a bucket are sorted by them before
    they are cut: by chance alone the longest question of a batch is twice as long as the others.

    Args:
        lengths: int array `(examples,)`, tokens of each example's passage.
        batch_size: examples in a batch: at most, or with group ids about as many.
        buckets: number of buckets; fewer where batches would be left half empty.
        seed: seed of the order.
        group_ids: int array `(examples,)`; examples with the same id have the same length and stay in one batch. None
            puts every example into a group of its own.
        question_lengths: int array `(examples,)`, tokens of each example's question. None leaves them to chance.

    Reference: FABIR section IV-B; thesis section 6.2 (30 buckets, 2.5 times faster than mixed batches).
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        buckets: int = 30,
        seed: int = 0,
        group_ids: np.ndarray | None = None,
        question_lengths: np.ndarray | None = None,
    ):
        self.seed = seed
        self._batch_size = batch_size
        self._question_lengths = np.zeros_like(lengths) if question_lengths is None else question_lengths
        group_ids = np.arange(len(lengths)) if group_ids is None else group_ids
        order = np.lexsort((group_ids, lengths))
        boundaries = np.flatnonzero(np.diff(group_ids[order])) + 1
        batches = max(1, -(-len(lengths) // batch_size))
        # A bucket that holds a little more than one batch would make two batches of half the size.
        most = -(-batches // buckets)
        # A bucket is a list of groups: arrays of the examples that stay in one batch.
        self._buckets = [bucket for bucket in _cut(np.split(order, boundaries), -(-batches // most)) if bucket]
        self._counts = [min(_number_of_batches(bucket, batch_size), most) for bucket in self._buckets]

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch, the same in each."""
        return sum(self._counts)

    def epoch(self, number: int) -> list[np.ndarray]:
        """The batches of one epoch.

        Args:
            number: the epoch, counted from 0.

        Returns:
            `batches_per_epoch` int64 arrays of example numbers.
        """
        random = np.random.default_rng([self.seed, number])
        batches = []
        for bucket, count in zip(self._buckets, self._counts, strict=True):
            shuffled = [bucket[i] for i in random.permutation(len(bucket))]
            batches += [np.concatenate(groups) for groups in _fill(self._by_questions(shuffled, count), count)]
        return [batches[i] for i in random.permutation(len(batches))]

    def _by_questions(self, groups: list[np.ndarray], batches: int) -> list[np.ndarray]:
        # Half of the bucket at most: sorted as a whole it would have the same batches in every epoch.
        sorted_batches = min(SORTED_BATCHES, batches // 2)
        if sorted_batches < 2:
            return groups
        sizes = np.array([len(group) for group in groups])
        parts = (np.cumsum(sizes) - sizes) // (sorted_batches * self._batch_size)
        longest = np.maximum.reduceat(self._question_lengths[np.concatenate(groups)], np.cumsum(sizes) - sizes)
        # Up and down in turn: a batch that lies in two parts has similar questions, too.
        return [groups[i] for i in np.lexsort((np.where(parts % 2, -longest, longest), parts))]


def _number_of_batches(groups: list[np.ndarray], batch_size: int) -> int:
    """As many as `batch_size` asks for, but none so small that a large group could leave it empty."""
    sizes = [len(group) for group in groups]
    return max(1, min(-(-sum(sizes) // batch_size), sum(sizes) // max(sizes)))


def _cut(groups: list[np.ndarray], parts: int) -> list[list[np.ndarray]]:
    """Cuts a list of groups into parts of nearly as many examples; a group goes where its middle lies."""
    sizes = np.array([len(group) for group in groups])
    ends = np.cumsum([len(part) for part in np.array_split(np.arange(sizes.sum()), parts)])
    part_of = np.searchsorted(ends, np.cumsum(sizes) - 1 - sizes // 2, side="right")
    boundaries = np.searchsorted(part_of, np.arange(parts + 1))
    return [groups[begin:end] for begin, end in itertools.pairwise(boundaries)]


def _fill(groups: list[np.ndarray], batches: int) -> list[list[np.ndarray]]:
    """Fills batches with equally many examples, or one more, as far as the groups allow; keeps the order if it can.

    Batches of equal size and similar length reuse compiled kernels.
    """
    filled = []
    for remaining in range(batches, 0, -1):
        sizes = [len(group) for group in groups]
        chosen = _adding_up_to(sum(sizes) // remaining, sizes) if remaining > 1 else range(len(groups))
        filled.append([groups[index] for index in chosen])
        gone = set(chosen)
        groups = [group for index, group in enumerate(groups) if index not in gone]
    return filled


def _adding_up_to(total: int, sizes: list[int]) -> list[int]:
    """Indices of sizes with the given sum, or the largest smaller one there is, from the fewest of the first ones."""
    # Bit s is set if some of the sizes seen so far add up to s.
    sums = [1]
    for size in sizes:
        sums.append((sums[-1] | sums[-1] << size) & (2 << total) - 1)
        if sums[-1] >> total & 1:
            break
    left = sums[-1].bit_length() - 1
    chosen = []
    for index in reversed(range(len(sums) - 1)):
        if not sums[index] >> left & 1:
            chosen.append(index)
            left -= sizes[index]
    return chosen[::-1]
