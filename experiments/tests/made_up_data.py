"""A data set made up, and a server on this machine that sends it well or badly."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from singularbayes_experiments.data.content import content, sha256
from singularbayes_experiments.data.source import File, Source

BYTES = bytes(range(256)) * 1024  # some chunks of a download
Answer = Callable[[BaseHTTPRequestHandler], None]


def made_up(files: dict[str, bytes], base: str | None = None, **options) -> Source:
    """A source whose files hold these bytes."""
    held = {name: content(name, data) for name, data in files.items()}
    rows = tuple(File(name, len(data), sha256(data)) for name, data in held.items())
    return Source("made_up", "Made up", "none", "https://example.org/", rows, base=base, **options)


def sends(data: bytes, length: int | None = None) -> Answer:
    """Answers with `data`; the head may promise another length."""

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(data) if length is None else length))
        request.end_headers()
        request.wfile.write(data)

    return answer


def sends_slowly(data: bytes, pause: float, parts: int) -> Answer:
    """Answers with `data` in parts, with a pause before each."""

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        step = -(-len(data) // parts)
        for start in range(0, len(data), step):
            time.sleep(pause)
            request.wfile.write(data[start : start + step])

    return answer


def refuses(status: int) -> Answer:
    return lambda request: request.send_error(status)


class Server:
    """`answers` says what is sent for a path; of a list, one after the other. `asked` are the paths asked for."""

    def __init__(self, port: int):
        self.base = f"http://127.0.0.1:{port}/"
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.asked: list[str] = []


@contextmanager
def serving() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removeprefix("/")
            server.asked.append(name)
            answer = server.answers.get(name, refuses(404))
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked may be gone
                (answer.pop(0) if isinstance(answer, list) else answer)(self)

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(listener.server_port)
    threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    listener.shutdown()
    listener.server_close()
