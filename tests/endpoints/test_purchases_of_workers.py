"""Purchases by workers: a question is paid for once and within the limit, although a worker is killed."""

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from clusters import cluster
from fake_endpoint import at, completion
from test_image_endpoint import posix

from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints.chat import ask
from biaslab.endpoints.purchases import summary
from biaslab.execution.workers import Workers, _connected

pytestmark = [pytest.mark.long, posix]
needs_dask = pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="needs the extra 'dask'")
PRICE, QUESTIONS = 0.25, 12


def asks(endpoint, root, log, rows):
    """Ask a paid question per row, and note the process."""
    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    conversations = [[{"role": "user", "content": text}] for text in rows["text"]]
    answers = ask(endpoint, conversations, ResultCache(root), charged=True, progress=False)
    return rows.assign(answer=[answer.text for answer in answers])


@contextlib.contextmanager
def workers_of(engine, folder):
    """Yield two workers of an engine."""
    if engine == "local":
        from joblib.externals.loky import get_reusable_executor

        yield Workers(count=2)
        get_reusable_executor().shutdown(kill_workers=True)
    else:
        with cluster(folder) as started:
            yield Workers("dask", address=str(started.file))
            _connected(str(started.file), 0).close()
            _connected.cache_clear()


@pytest.mark.parametrize("engine", ["local", pytest.param("dask", marks=needs_dask)])
def test_paid_questions_of_workers_of_which_one_is_killed(server, tmp_path, monkeypatch, engine):
    monkeypatch.setenv("FAKE_KEY", "sk-test-key-of-workers")
    log, held = tmp_path / "log", threading.Event()
    killed = []

    def reply(question, n):
        # A worker is killed while a request is under way.
        if n == 6:
            killed.append(question)
            os.kill(int(log.read_text().split()[-1]), signal.SIGKILL)
            time.sleep(0.5)
            held.set()
        return completion(question.upper())

    server.reply = reply
    # The question that is under way may be charged twice.
    endpoint = at(server, price=PRICE, cost_limit=PRICE * (QUESTIONS + 1), concurrency=1)
    units = pd.DataFrame({"text": [f"question {n}" for n in range(QUESTIONS)]})
    with workers_of(engine, tmp_path / "cluster") as workers:
        store = ResultCache(tmp_path / "store", workers=workers)
        work = partial(asks, endpoint, str(store.root), str(log))
        found = store.stage("paid", {}, work).compute(units, shard_rows=2, progress=False)
    assert held.is_set() and len(set(log.read_text().split())) >= 2
    assert found["answer"].tolist() == [text.upper() for text in units["text"]]
    asked = Counter(server.questions)
    assert set(asked) == set(units["text"])
    assert all(n == 1 for question, n in asked.items() if question not in killed)
    (spent,) = summary(store.root)
    # A request whose reply was lost counts as paid.
    assert spent["spent"] == PRICE * len(server.requests) <= endpoint.cost_limit
