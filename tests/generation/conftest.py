"""Tiny pipelines of each family with random weights, saved as folders that diffusers loads."""

import pytest
import tiny_pipelines


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch = pytest.importorskip("torch", reason="generation needs the extra 'models'")
    pytest.importorskip("diffusers", reason="generation needs the extra 'models'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Return the folder of a tiny pipeline by its family's name; each is built when first asked for."""
    root, built = tmp_path_factory.mktemp("pipelines"), {}

    def folder(name: str) -> str:
        if name not in built:
            built[name] = tiny_pipelines.save(name, root / name)
        return str(built[name])

    return folder
