"""Replays TensorFlow Serving's REST protocol against a server of a reader, one line of protocol.jsonl after the other.

python check_protocol.py --server http://localhost:8501 --model fabir

Each line has a request, and what is expected of the answer: the status, a pattern of the error, and values or types at
places of the JSON. Its source is the file of TensorFlow Serving that it was read in. It needs only Python.
"""

import argparse
import gzip
import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

LINES = Path(__file__).with_name("protocol.jsonl")
TYPES: dict[str, type | tuple[type, ...]] = {"text": str, "number": (int, float), "boolean": bool}


def read_lines() -> list[dict]:
    """All lines of the protocol."""
    return [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()]


def check(line: dict, server: str, model: str, version: str, token: str = "") -> str:
    """Sends one request.

    Args:
        line: of the protocol.
        server: scheme, host and REST port.
        model, version: what is served.
        token: for a server that asks for one.

    Returns:
        What is wrong with the answer, or "".
    """
    encoded = "".join(f"%{byte:02X}" for byte in model.encode())
    names = {"{model}": model, "{encoded_model}": encoded, "{version}": version}
    status, content = _answer(line, server, names, token)
    expected = line["status"] if isinstance(line["status"], list) else [line["status"]]
    if status not in expected:
        return f"found status {status}, expected {' or '.join(map(str, expected))}: {content[:200]!r}"
    try:
        found = json.loads(content)
    except ValueError:
        return f"found no JSON: {content[:200]!r}"
    if "error" in line:
        # Names stand for themselves, the rest is a pattern.
        pattern = _filled(line["error"], {key: re.escape(value) for key, value in names.items()})
        error = found.get("error", "")
        if set(found) != {"error"} or not re.search(pattern, error, re.DOTALL):
            return f"found the error {error!r}, expected {pattern!r}"
    for place, value in line.get("has", {}).items():
        if problem := _problem_at(found, place, _filled(value, names)):
            return problem
    return ""


def _answer(line: dict, server: str, names: dict[str, str], token: str) -> tuple[int, bytes]:
    body = line["text"].encode() if "text" in line else json.dumps(line["body"]).encode() if "body" in line else None
    headers = {"Content-Type": "application/json"} | line.get("headers", {})
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if line.get("gzip"):
        body = gzip.compress(body or b"")
        headers["Content-Encoding"] = "gzip"
    request = urllib.request.Request(server + _filled(line["path"], names), body, headers, method=line["method"])
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _problem_at(found, place: str, expected: str) -> str:
    for key in place.split("."):
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return f"found nothing at {place}"
    # A boolean is an integer to Python.
    is_right = isinstance(found, TYPES[expected]) if expected in TYPES else found == expected
    if not is_right or (expected == "number" and isinstance(found, bool)):
        return f"found {found!r} at {place}, expected {expected}"
    return ""


def _filled(text: str, names: dict[str, str]) -> str:
    for key, value in names.items():
        text = text.replace(key, value)
    return text


def main() -> None:
    """Replays every line, and says which answers differ."""
    parser = argparse.ArgumentParser(description="Replays TensorFlow Serving's REST protocol against a server.")
    parser.add_argument("--server", default="http://localhost:8501")
    parser.add_argument("--model", default="fabir")
    parser.add_argument("--version", default="1")
    parser.add_argument("--token", default="")
    arguments = parser.parse_args()
    lines = read_lines()
    wrong = 0
    for line in lines:
        try:
            problem = check(line, arguments.server, arguments.model, arguments.version, arguments.token)
        except OSError as error:
            sys.exit(f"error: {arguments.server} gives no answer: {error}")
        if problem:
            wrong += 1
            print(f"{line['name']} ({line['source']}): {problem}")
    print(f"{len(lines) - wrong} of {len(lines)} answers are as TensorFlow Serving's")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
