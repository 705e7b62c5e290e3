"""A hub on this machine, in the place of the Hugging Face hub, for this process and those that it starts."""

import contextlib
from pathlib import Path

import pytest

from biaslab.hub import huggingface as hub_names

CACHED = {"HF_HOME": "", "HF_HUB_CACHE": "hub", "HF_XET_CACHE": "xet"}


@contextlib.contextmanager
def standing_in(cache: Path):
    """Yield a hub that serves nothing yet, asked by whoever asks the Hugging Face hub, with a cache in a folder."""
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="models need the extra 'models'")
    from fake_hub import Hub
    from huggingface_hub import constants, hf_api

    with Hub().running() as running, pytest.MonkeyPatch.context() as patch:
        # Read when it is imported, here and in processes that are started.
        given = {"HF_ENDPOINT": running.url, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        given |= {name: str(cache / below) for name, below in CACHED.items()}
        for name, value in given.items():
            patch.setenv(name, value)
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
            patch.delenv(name, raising=False)
        for name in CACHED:
            patch.setattr(constants, name, given[name])
        patch.setattr(constants, "ENDPOINT", running.url)
        template = f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(hf_api.api, "endpoint", running.url)
        # What another hub told in this process, and this one will have told once it is gone.
        patch.setattr(hub_names, "_commits", {})
        patch.setattr(hub_names, "_failures", {})
        # Connections that were opened before know other proxies.
        huggingface_hub.close_session()
        yield running
        huggingface_hub.close_session()


@pytest.fixture
def hub(tmp_path):
    """Return a hub that serves nothing yet, in the place of the real one, with an empty cache."""
    with standing_in(tmp_path / "huggingface") as running:
        yield running


@pytest.fixture(scope="session")
def repositories(tmp_path_factory):
    """Return the folder of a tiny repository by its name; each is built when it is first asked for."""
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
def stocked(hub, repositories):
    """Return the hub with every tiny repository there is."""
    return _with_all(hub, repositories)


@pytest.fixture(scope="module")
def stocked_for_all(repositories, tmp_path_factory):
    """Return such a hub for all tests of a file, which fetch a model once."""
    with standing_in(tmp_path_factory.mktemp("huggingface")) as running:
        yield _with_all(running, repositories)


@pytest.fixture
def here(inline, monkeypatch):
    """Let a run take this process alone, which knows tiny models by the names of open_clip's."""
    import tiny_repositories
    from open_clip import factory

    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    tiny_repositories.shrink()
