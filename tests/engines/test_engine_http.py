"""An engine that trickles, or tells the key that it was given, does no harm."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

from bench.engines.engine_http import Endpoint

KEY = 'sk-pearl/"diver"'


def test_a_key_that_the_engine_tells_is_struck_in_every_form(serve):
    url = urlsplit(serve({"GET /version": [(200, '{"a": "sk-pearl/\\"diver\\"", "b": "sk-pearl\\/\\"diver\\""}')]}))
    answer = Endpoint(url.hostname, url.port, api_key=KEY).ask("GET", "/version")
    assert answer.status == 200
    assert "diver" not in answer.text
    assert set(answer.json()) == {"a", "b"}


def test_an_answer_that_trickles_ends_with_its_seconds():
    stop, all_sent = threading.Event(), threading.Event()

    def trickle(listener):
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            for _ in range(600):
                if stop.wait(0.05):
                    return
                connection.sendall(b"H")
            all_sent.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        answer = Endpoint(*listener.getsockname()).ask("GET", "/v1/models", seconds=1.0)
        stop.set()
        thread.join()
    assert answer.status is None
    assert not all_sent.is_set(), "a limit that counts from each byte anew waits for all of them"
