"""Keys and local folders in texts are found and replaced."""

import os

import pytest

from biaslab import redact


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/data/me/captions.csv", "captions.csv"),
        ("~/captions/", "captions"),
        ("fairface:/models/f.safetensors", "fairface:f.safetensors"),
        ("hf:/data/set:config@split", "hf:set:config@split"),
        ("plugin:mine:/data/me/judge.onnx", "plugin:mine:judge.onnx"),
        ("grounding:/w/a+/w/b", "grounding:a+b"),
        ("/data/me/model+owner/lora:0.8", "model+owner/lora:0.8"),
        ("owner/name+/data/me/lora.safetensors:0.8+~/other", "owner/name+lora.safetensors:0.8+other"),
        ("/data/me/mix.safetensors+none", "mix.safetensors+none"),
        ("file:///data/me/captions.csv", "captions.csv"),
        (r"C:\data\me\captions.csv", "captions.csv"),
        # No paths of a machine.
        ("owner/name", "owner/name"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("plugin:mine:https://example.org/v1", "plugin:mine:https://example.org/v1"),
        ("", ""),
    ],
)
def test_basename_removes_folders(text, name):
    assert redact.basename(text) == name


def test_unique_names_of_equal_file_names_keep_folder():
    assert redact.unique_names(["annotations:/a/x/r.csv", "annotations:/a/y/r.csv", "/b/s.csv"]) == {
        "annotations:/a/x/r.csv": "annotations:x/r.csv",
        "annotations:/a/y/r.csv": "annotations:y/r.csv",
        "/b/s.csv": "s.csv",
    }


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the home folder of a user who works in its folder ``project``."""
    (tmp_path / "alice" / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "alice"))
    monkeypatch.chdir(tmp_path / "alice" / "project")
    return tmp_path / "alice"


def test_redact_makes_known_paths_relative(home):
    texts = redact.sensitive_texts(
        {"settings": {"corpus": "/srv/acme/a.csv", "gender": "fairface:/w/acme/f.st"}}, "/out/run"
    )
    texts_given = (
        f"{home}/project/outputs/a.csv, ~/project/b.py, /srv/acme/a.csv, '/srv/acme/The images/1.png', /w/acme/f.st, "
        f"/out/run/tables, /out/run, {os.path.dirname(os.__file__)}, {home}/notes.txt, {home}"
    )
    prefix = redact.redact(os.path.dirname(os.__file__), texts)
    assert redact.redact(texts_given, texts) == (
        f"outputs/a.csv, b.py, a.csv, 'The images/1.png', f.st, tables, run, {prefix}, ~/notes.txt, ~"
    )


def test_redact_handles_patterns_and_root_files(home):
    texts_given = [
        "/srv/acme/*/in[0-9]/*.parquet",
        "/data/captions.csv",
        "~/private/judge.onnx",
        "/data",
        "https://h.org/v1/x",
    ]
    redacted = redact.redact(
        [*texts_given, "/srv/acme/1/in2/a.parquet", f"{home}/private/x"], redact.sensitive_texts(texts_given)
    )
    assert redacted == [
        *("*/in[0-9]/*.parquet", "captions.csv", "judge.onnx", "/data", "https://h.org/v1/x"),
        *("1/in2/a.parquet", "x"),
    ]


def test_redact_keeps_folders_that_identify_no_user(monkeypatch):
    monkeypatch.chdir("/usr")
    monkeypatch.setenv("HOME", "/alice")
    texts = redact.sensitive_texts(None, "/", "/tmp")
    for text in ("/tmp/ipykernel_7/8.py", "/usr/lib/python3/x.py", "https://example.org/home/Alice", "/alice-cause"):
        assert redact.redact(text, texts) == text
    assert redact.redact("/alice/clients/x.csv", texts) == "~/clients/x.csv"
    monkeypatch.setenv("HOME", "/")
    assert redact.redact("https://example.org//x", redact.sensitive_texts()) == "https://example.org//x"


def test_find_keys_uses_common_names_and_settings(monkeypatch):
    in_use = {"OPENAI_API_KEY", "HF_TOKEN", "MY_SECRET", "OURS", "CRITICS"}
    for name in (*in_use, "OTHERS"):
        monkeypatch.setenv(name, f"{name}-1234")
    # A placeholder, no key.
    monkeypatch.setenv("LOCAL_API_KEY", "EMPTY")
    values = {"settings": {"endpoint": {"api_key_env": "OURS"}, "critique.api_key_env": "CRITICS"}}
    keys = redact.find_keys(values)
    assert in_use <= set(keys.values()) and not {"OTHERS", "LOCAL_API_KEY"} & set(keys.values())
    assert redact.redact([{"a": "OURS-1234", "b": 1}, "x OTHERS-1234"], redact.sensitive_texts(values)) == [
        {"a": "[key]", "b": 1}, "x OTHERS-1234",
    ]  # fmt: skip


def test_redact_keeps_mapping_keys_distinct():
    texts = redact.sensitive_texts(["/srv/a/in", "/srv/b/in"])
    texts_given = {"/srv/a/in": 1, "/srv/b/in": ["/srv/b/x", 2, None], "image/png": "aa/srv/a/in"}
    assert redact.redact(texts_given, texts) == {"in": 1, "in (again)": ["x", 2, None], "image/png": "aa/srv/a/in"}


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://me:word@h.org/v1", "a user name or password"),
        ("me:word@h.org/v1", "a user name or password"),
        ("https://h.org/v1?a=1&pwd=word", "a text that looks like a key"),
        ("https://h.org/v1?X-Amz-Signature=word", "a text that looks like a key"),
        ("https://h.org/v1?author=me&design=1&keyword=a", ""),
        ("https://h.org/v1;token=word/x", "a text that looks like a key"),
        ("https://h.org/v1#accessToken=word", "a text that looks like a key"),
        ("http://localhost:8000/v1", ""),
        ("https://x.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-06-01", ""),
        ("https://gateway.ai.cloudflare.com/v1/0123456789abcdef0123456789abcdef/lab/openai", ""),
        ("https://h.org/keys/v1?code=", ""),
        # In the path: as a pair of folders, as a parameter of a folder, and as a key that names itself.
        ("https://h.org/key/0123456789abcdef0123456789abcdef/v1", "a text that looks like a key"),
        ("https://h.org/v1;jsessionid=0A1B2C", "a text that looks like a key"),
        ("https://h.org/sk-proj-0123456789abcdef/v1", "a text that looks like a key"),
        ("https://h.org/v1?%6bey=word", "a text that looks like a key"),
        ("https://h.org/models/stable-diffusion-xl-base-1.0/v1", ""),
    ],
)
def test_secret_in_url_detects_credentials(url, secret):
    assert redact.secret_in_url(url) == secret
