"""From tokenized data to batches: answer alignment, windows, length buckets."""
