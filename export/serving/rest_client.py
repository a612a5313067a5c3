"""Asks a reader in TensorFlow Serving or fabir-serve over REST; needs only Python.

python rest_client.py "Who built the mill?" "The mill was built by Anna Keld."
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.request

# The server is starting, or its queue is full: the same request can succeed a moment later.
WORTH_A_RETRY = (429, 503)

IN_OUR_CONFIGURATION = "fabir"
"""The reader's name in models.config."""


class ServingError(Exception):
    """The server did not answer or refused the request; the message says which."""


def ask(
    questions: list[str],
    passages: list[str],
    server: str = "http://localhost:8501",
    model: str | None = None,
    deadline: float = 10.0,
) -> list[dict]:
    """Asks questions, each about its own passage.

    Args:
        questions, passages: lists of equal length.
        server: scheme, host and REST port.
        model: the reader's name in the server's configuration. None takes the only one that fabir-serve serves, and
            "fabir" of TensorFlow Serving, which does not tell.
        deadline: seconds until this gives up, retries included.

    Returns:
        For each question `answer`, `start`, `end`, `probability`, `no_answer_probability`, `is_answer`, ...; see the
        documentation ("Serve a reader"). Where `is_answer` is false, the answer is empty.

    Raises:
        ServingError: there is no answer in time, or the server refuses the request.
    """
    rows = [{"question": question, "passage": passage} for question, passage in zip(questions, passages, strict=True)]
    body = json.dumps({"signature_name": "serving_default", "instances": rows}).encode()
    url = server
    end, pause, reason = time.monotonic() + deadline, 0.1, "there was no time to ask"
    while (left := end - time.monotonic()) > 0:
        try:
            model = model or _only_model(server, left)
            url = f"{server}/v1/models/{model}:predict"
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=left) as response:
                return json.load(response)["predictions"]
        except urllib.error.HTTPError as error:
            reason = _reason(error)
            if error.code not in WORTH_A_RETRY:
                raise ServingError(f"{url} refused the request: {reason}") from None
        except OSError as error:
            reason = str(getattr(error, "reason", error))
        time.sleep(max(min(pause, end - time.monotonic()), 0))
        pause *= 2
    raise ServingError(f"{url} gave no answer within {deadline:g} s: {reason}")


def _only_model(server: str, timeout: float) -> str:
    """The name of the only model of fabir-serve; TensorFlow Serving refuses to say."""
    try:
        with urllib.request.urlopen(f"{server}/v1/info", timeout=timeout) as response:
            names = [model["name"] for model in json.load(response)["models"]]
    except urllib.error.HTTPError as error:
        if error.code in WORTH_A_RETRY:
            raise
        return IN_OUR_CONFIGURATION
    if len(names) > 1:
        raise ServingError(f"{server} serves {', '.join(names)}: expected the name of one of them")
    return names[0]


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return json.load(error)["error"]
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


def main() -> None:
    """Asks one question."""
    parser = argparse.ArgumentParser(description="Asks a reader in TensorFlow Serving over REST.")
    parser.add_argument("question")
    parser.add_argument("passage")
    parser.add_argument("--server", default="http://localhost:8501")
    parser.add_argument("--model", help="the reader's name; by default the only one")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds")
    arguments = parser.parse_args()
    try:
        (found,) = ask([arguments.question], [arguments.passage], arguments.server, arguments.model, arguments.deadline)
    except ServingError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
