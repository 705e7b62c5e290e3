"""Tests of tiny pipelines, which one thread computes fastest."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch = pytest.importorskip("torch", reason="generation needs the extra 'models'")
    pytest.importorskip("diffusers", reason="generation needs the extra 'models'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
