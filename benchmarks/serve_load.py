"""Asks fabir-serve from another process: questions a second, latencies, memory, and version swaps under load.

    python benchmarks/serve_load.py --dataset=dev-v1.1.json --minutes=10
    python benchmarks/serve_load.py --dataset=dev-v1.1.json --swaps=10

The first measures, one after the other: `Reader.answer_batch` on the questions, `Reader.answer` on some of them, one
client of the server alone, and 32 clients for ten minutes. Each question has a passage of its own, so that no reading
is shared. The second serves exports and replaces the version ten times while 8 clients ask.
"""

import asyncio
import contextlib
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from absl import flags
from common import machine

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import read_squad

flags.DEFINE_string("dataset", None, "SQuAD file to draw questions from.")
flags.DEFINE_string("model", "fabir-base", "The reader.")
flags.DEFINE_integer("questions", 2000, "Questions, each with a passage of its own.")
flags.DEFINE_integer("single", 200, "Questions that are asked one at a time.")
flags.DEFINE_integer("clients", 32, "Clients that ask at the same time.")
flags.DEFINE_float("minutes", 10.0, "How long they ask.")
flags.DEFINE_integer("swaps", 0, "Versions to replace under load, instead of all else.")

READER = """
import json, sys, time
import fabir_tf
pairs = json.load(open(sys.argv[1]))
reader = fabir_tf.Reader.load(sys.argv[2])
single = pairs[: int(sys.argv[3])]
times = {}
for name in ("warm-up", "measured"):
    begin = time.perf_counter()
    reader.answer_batch(*zip(*pairs))
    times["batch"] = len(pairs) / (time.perf_counter() - begin)
    begin = time.perf_counter()
    for question, passage in single:
        reader.answer(question, passage)
    times["single"] = len(single) / (time.perf_counter() - begin)
print(json.dumps(times))
"""


def draw(path: str, count: int) -> list[tuple[str, str]]:
    """Questions with passages of their own, in random order."""
    data = read_squad(path)
    first = {question.passage: question.text for question in data.questions}
    pairs = [(question, data.passages[passage]) for passage, question in first.items()]
    return random.Random(1).sample(pairs, min(count, len(pairs)))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[int, subprocess.Popen]]:
    """Runs fabir-serve; gives its port and process when it is ready."""
    port = free_port()
    command = [sys.executable, "-m", "fabir_tf.commands.serve", *arguments, f"--rest_api_port={port}"]
    process = subprocess.Popen(
        [*command, "--grpc_port=-1", "--noaccess_log"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stderr
    try:
        line = process.stdout.readline()
        if "ready" not in line:
            raise SystemExit(process.stderr.read())
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield port, process
    finally:
        process.terminate()
        process.wait(60)


class Tally:
    """What clients found."""

    def __init__(self):
        self.seconds: list[float] = []
        self.errors: list[str] = []

    def report(self, elapsed: float) -> str:
        """Questions a second and latencies."""
        found = np.array(self.seconds) * 1000
        return (
            f"{len(found) / elapsed:.1f} questions/s, p50 {np.percentile(found, 50):.0f} ms, p99 "
            f"{np.percentile(found, 99):.0f} ms, {len(self.errors)} errors{self.errors[:1] or ''}"
        )


async def client(port: int, pairs: list[tuple[str, str]], tally: Tally, until: float) -> None:
    """Asks one question after the other over one connection, from a place of its own in the list."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = random.randrange(len(pairs))
    while time.perf_counter() < until:
        question, passage = pairs[number % len(pairs)]
        number += 1
        body = json.dumps({"question": question, "passage": passage}).encode()
        begin = time.perf_counter()
        try:
            writer.write(b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            content = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            tally.errors.append(repr(error))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        if b" 200 " not in head[:15]:
            tally.errors.append(content.decode())
        tally.seconds.append(time.perf_counter() - begin)
    writer.close()


async def ask(port: int, pairs: list[tuple[str, str]], clients: int, seconds: float, tally: Tally) -> float:
    """Lets clients ask; returns the seconds it took."""
    begin = time.perf_counter()
    await asyncio.gather(*(client(port, pairs, tally, begin + seconds) for _ in range(clients)))
    return time.perf_counter() - begin


def memory(process: subprocess.Popen) -> float:
    """Megabytes of a process and its children."""
    total, left = 0.0, [process.pid]
    while left:
        pid = left.pop()
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                left += [int(child) for child in (thread / "children").read_text().split()]
            status = Path(f"/proc/{pid}/status").read_text()
            total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
    return total


def load(values: flags.FlagValues, pairs: list[tuple[str, str]]) -> None:
    """Throughput, latency and memory."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(pairs, file)
        file.flush()
        command = [sys.executable, "-c", READER, file.name, values.model, str(values.single)]
        own = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"Reader: {own['batch']:.1f} questions/s in batches, {own['single']:.1f} one at a time", flush=True)
    with serving(f"--model={values.model}") as (port, process):
        # Shapes that were not met before take longer once.
        asyncio.run(ask(port, pairs, values.clients, 60.0, Tally()))
        tally = Tally()
        elapsed = asyncio.run(ask(port, pairs, 1, 20.0, tally))
        ratio = len(tally.seconds) / elapsed / own["single"]
        print(f"one client: {tally.report(elapsed)}; {ratio:.2f} of Reader.answer", flush=True)
        tally, samples = Tally(), []
        watched = threading.Event()

        def watch() -> None:
            begin = time.perf_counter()
            while not watched.wait(10.0):
                samples.append((time.perf_counter() - begin, memory(process)))

        watching = threading.Thread(target=watch)
        watching.start()
        elapsed = asyncio.run(ask(port, pairs, values.clients, 60 * values.minutes, tally))
        watched.set()
        watching.join()
        ratio = len(tally.seconds) / elapsed / own["batch"]
        print(f"{values.clients} clients: {tally.report(elapsed)}; {ratio:.2f} of Reader.answer_batch")
        for minute in range(1, int(values.minutes) + 1):
            found = [megabytes for seconds, megabytes in samples if 60 * (minute - 1) < seconds <= 60 * minute]
            print(f"minute {minute}: {np.mean(found):,.0f} MB" if found else "")


def swap(values: flags.FlagValues, pairs: list[tuple[str, str]]) -> None:
    """Replaces versions under load."""
    import fabir_tf

    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "exported"
        fabir_tf.export_reader(fabir_tf.Reader.load(values.model), base)
        with serving(f"--model_base_path={base}") as (port, process):
            tally = Tally()
            stop = time.perf_counter() + 24 * 3600

            def keep_asking() -> None:
                # At the end, when the server is gone.
                with contextlib.suppress(OSError):
                    asyncio.run(ask(port, pairs, 8, stop - time.perf_counter(), tally))

            threading.Thread(target=keep_asking, daemon=True).start()
            for version in range(2, values.swaps + 2):
                time.sleep(5.0)
                shutil.copytree(base / "1", base / f"copying-{version}")
                (base / f"copying-{version}").rename(base / str(version))
                wait_for(port, version)
                time.sleep(5.0)
                print(f"swap {version - 1}: {memory(process):,.0f} MB, {len(tally.seconds):,} answers", flush=True)
            print(f"{len(tally.errors)} failed requests {tally.errors[:1]}")


def wait_for(port: int, version: int) -> None:
    """Waits until a version answers, and it alone."""
    import urllib.request

    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/info") as response:
            if json.load(response)["models"][0]["versions"] == [version]:
                return
        time.sleep(0.2)


def main(values: flags.FlagValues) -> None:
    """Measures."""
    cli.validate_given(values, dataset="a SQuAD file")
    print(machine())
    pairs = draw(values.dataset, values.questions)
    (swap if values.swaps else load)(values, pairs)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
