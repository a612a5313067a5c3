"""What the server counts, for Prometheus."""

import prometheus_client as prometheus

from fabir_tf.serving.batching import Timing

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST
"""The type of `Metrics.page`."""


class Metrics:
    """Counters of one server."""

    def __init__(self):
        self._registry = registry = prometheus.CollectorRegistry()
        text = "Requests by protocol, method and result: an HTTP status or a gRPC code."
        self._requests = prometheus.Counter(
            "fabir_serve_requests", text, ["protocol", "method", "code"], registry=registry
        )
        text = "Seconds of a request: whole, waiting in the queue (queue), in the model (model)."
        self._seconds = prometheus.Histogram(
            "fabir_serve_request_seconds", text, ["stage"], buckets=SECONDS, registry=registry
        )
        self._rows = prometheus.Histogram(
            "fabir_serve_batch_rows", "Rows of the batch of a request.", ["model"], buckets=ROWS, registry=registry
        )
        self._queue = prometheus.Gauge(
            "fabir_serve_queue_rows", "Rows that wait for a version.", ["model", "version"], registry=registry
        )
        self._versions = prometheus.Gauge(
            "fabir_serve_available_versions", "Versions of a model that answer.", ["model"], registry=registry
        )

    def count_request(self, protocol: str, method: str, code: str, seconds: float) -> None:
        """Counts a request that has been answered.

        Args:
            protocol: "rest" or "grpc".
            method: what was asked for, one of a few words.
            code: of the answer.
            seconds: from its first byte to the answer.
        """
        self._requests.labels(protocol, method, code).inc()
        self._seconds.labels("whole").observe(seconds)

    def count_batch(self, model: str, timing: Timing) -> None:
        """Counts where the time of a request went."""
        self._seconds.labels("queue").observe(timing.queued)
        self._seconds.labels("model").observe(timing.model)
        self._rows.labels(model).observe(timing.rows)

    def count_queue(self, model: str, version: int, rows: int) -> None:
        """Notes how many rows wait for a version."""
        self._queue.labels(model, str(version)).set(rows)

    def count_versions(self, model: str, versions: int) -> None:
        """Notes how many versions of a model answer."""
        self._versions.labels(model).set(versions)

    def page(self) -> bytes:
        """All of it, in Prometheus' text form."""
        return prometheus.generate_latest(self._registry)
