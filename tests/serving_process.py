"""Runs fabir-serve as a user does, in a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path


class Server:
    """A running server.

    Attributes:
        url: scheme, host and port of HTTP.
        grpc: host and port of gRPC, or None.
        process: it.
        lines: what it has written to standard error.
    """

    def __init__(self, process: subprocess.Popen, url: str, grpc: str | None, lines: list[str]):
        self.process, self.url, self.grpc, self.lines = process, url, grpc, lines

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ask(self, path: str, body=None, method: str | None = None, **headers: str):
        """Status and JSON of an answer; a body that is bytes is sent as it is."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content


@contextlib.contextmanager
def serving(*arguments: str, grpc: bool = False, end: str = "every request was answered") -> Iterator[Server]:
    """Starts a server on free ports, and ends it by SIGTERM; `end` is what it says then."""
    ports = ("--rest_api_port=0", f"--grpc_port={0 if grpc else -1}")
    command = [sys.executable, "-m", "fabir_tf.commands.serve", *arguments, *ports]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
    reading.start()
    try:
        ready = process.stdout.readline()
        assert "the page is at http://" in ready, (ready, lines)
        address = process.stdout.readline().rpartition(" ")[2].strip() if grpc else None
        yield Server(process, ready.rpartition(" ")[2].strip(), address, lines)
    finally:
        process.terminate()
        assert process.wait(60) == 0, lines
        reading.join(10)
        assert lines[-1] == f"ended: {end}\n"
        assert "Traceback" not in "".join(lines), lines
