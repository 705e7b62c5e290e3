"""A local hub that replaces the Hugging Face hub for this process and its child processes."""

import contextlib
from pathlib import Path

import pytest

from biaslab.hub import huggingface as hub_names

CACHED = {"HF_HOME": "", "HF_HUB_CACHE": "hub", "HF_XET_CACHE": "xet"}


@contextlib.contextmanager
def standing_in(cache: Path):
    """Yield an empty hub that replaces the Hugging Face hub, with its cache in a folder."""
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="models need the extra 'models'")
    from fake_hub import Hub
    from huggingface_hub import constants, hf_api

    with Hub().running() as server, pytest.MonkeyPatch.context() as patch:
        # Read on import, here and in child processes.
        environment = {"HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        environment |= {name: str(cache / subfolder) for name, subfolder in CACHED.items()}
        for name, value in environment.items():
            patch.setenv(name, value)
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
            patch.delenv(name, raising=False)
        for name in CACHED:
            patch.setattr(constants, name, environment[name])
        patch.setattr(constants, "ENDPOINT", server.url)
        template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(hf_api.api, "endpoint", server.url)
        # Answers of other hubs in this process, and of this one after it is closed.
        patch.setattr(hub_names, "_commits", {})
        patch.setattr(hub_names, "_failures", {})
        # Open connections use the proxies of before.
        huggingface_hub.close_session()
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def hub(tmp_path):
    """Return an empty hub that replaces the real one, with an empty cache."""
    with standing_in(tmp_path / "huggingface") as server:
        yield server


@pytest.fixture(scope="session")
def repositories(tmp_path_factory):
    """Return the folder of a tiny repository by its name; each is built at first use."""
    pytest.importorskip("torch", reason="models need the extra 'models'")
    import tiny_repositories

    root, built = tmp_path_factory.mktemp("repositories"), {}

    def folder(name: str) -> Path:
        if name not in built:
            built[name] = tiny_repositories.save(name, root / name)
        return built[name]

    return folder


def _with_all(hub, repositories):
    import tiny_repositories

    for name in tiny_repositories.NAMES:
        hub.serve(name, repositories(name))
    return hub


@pytest.fixture
def full_hub(hub, repositories):
    """Return the hub with all tiny repositories."""
    return _with_all(hub, repositories)


@pytest.fixture(scope="module")
def stocked_for_all(repositories, tmp_path_factory):
    """Return the same hub for all tests of a file, so that a model is fetched once."""
    with standing_in(tmp_path_factory.mktemp("huggingface")) as server:
        yield _with_all(server, repositories)


@pytest.fixture
def here(inline, monkeypatch):
    """Run in this process only, with tiny models under names of open_clip."""
    import tiny_repositories
    from open_clip import factory

    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    tiny_repositories.shrink()
