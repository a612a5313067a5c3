"""One thread at a time loads readers and traces graphs: TensorFlow may crash when several threads add operations."""

import threading

GRAPH_LOCK = threading.RLock()
