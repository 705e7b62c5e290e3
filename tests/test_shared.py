"""What is shared names no folder of the machine that made it."""

import pytest

from biaslab import shared


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/data/me/captions.csv", "captions.csv"),
        ("~/captions/", "captions"),
        ("/data/laion/part-*.parquet", "part-*.parquet"),
        ("fairface:/models/f.safetensors", "fairface:f.safetensors"),
        ("hf:/data/set:config@split", "hf:set:config@split"),
        # No paths of a machine.
        ("owner/name", "owner/name"),
        ("captions/*.parquet", "captions/*.parquet"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("endpoint:dall-e-3", "endpoint:dall-e-3"),
        ("", ""),
    ],
)
def test_names_come_without_folders(text, name):
    assert shared.named(text) == name


def test_files_of_one_name_are_told_apart_by_their_folders():
    assert shared.called(["ratings:/a/x/r.csv", "ratings:/a/y/r.csv", "/b/s.csv"]) == {
        "ratings:/a/x/r.csv": "ratings:x/r.csv",
        "ratings:/a/y/r.csv": "ratings:y/r.csv",
        "/b/s.csv": "s.csv",
    }


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("/srv/secret/outputs/mini/.parts/x", "outputs/mini/.parts/x"),
        ("see /srv/secret.", "see secret."),
        ("output_dir = '/srv/secret/a b'", "output_dir = 'a b'"),
        ("File \x1b[32m/srv/secret/a.py:3\x1b[39m", "File \x1b[32ma.py:3\x1b[39m"),
        ("file:///srv/secret/a", "a"),
        ("File ~/plans/a.py", "File a.py"),
        # Part of something else.
        ("https://host/srv/secret/x", "https://host/srv/secret/x"),
        ("abc+/srv/secret/x", "abc+/srv/secret/x"),
        ("/srv/secrets/x", "/srv/secrets/x"),
    ],
)
def test_folders_are_taken_out_of_texts(text, rest):
    assert shared.without(["/srv/secret", "~/plans"])(text) == rest


def test_keys_stay_apart_and_images_as_they_are():
    clean = shared.without(["/srv/a", "/srv/b"])
    given = {"/srv/a/in": 1, "/srv/b/in": ["/srv/b/x", 2, None], "image/png": "aa /srv/a/in"}
    assert clean(given) == {"in": 1, "in (2)": ["x", 2, None], "image/png": "aa /srv/a/in"}


def test_folders_are_those_of_the_machine_and_of_what_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = shared.folders(
        {"settings": {"corpus": "/data/secret/a.csv", "gender": "fairface:/w/f.st"}}, "/out/run"
    )
    assert {"/data/secret", "/w", "/out/run", str(tmp_path), str(tmp_path / "home")} <= set(found)
    assert not {"", "/", "~"} & set(found)
