"""What goes wrong with a request: a code of gRPC, its status in HTTP, and one sentence."""

HTTP_STATUS = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}
"""The status that TensorFlow Serving gives to each code (`model_servers/http_server.cc`)."""


class RequestError(Exception):
    """A request that is not answered.

    Args:
        code: a key of `HTTP_STATUS`.
        message: one sentence for the client.
        http_status: another status than that of the code, for what only HTTP knows.
    """

    def __init__(self, code: str, message: str, http_status: int | None = None):
        super().__init__(code, message, http_status)
        self.code = code
        self.message = message
        self.http_status = http_status or HTTP_STATUS[code]


class QueueFullError(RequestError):
    """So much waits that a request is refused at once; the same request can succeed a moment later."""

    def __init__(self):
        super().__init__("UNAVAILABLE", "The batch scheduling queue to which this task was submitted is full")


class LateError(RequestError):
    """A request whose time has ended before its answer is there."""

    def __init__(self):
        super().__init__("DEADLINE_EXCEEDED", "the answer took longer than the request allows")


def invalid(message: str) -> RequestError:
    """The error of a request that is wrong whatever the server's state is."""
    return RequestError("INVALID_ARGUMENT", message)
