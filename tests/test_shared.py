"""What is shared names no folder of the machine that made it."""

import pytest

from biaslab.ground import shared


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
        ("/opt/secret/outputs/mini/.parts/x", "outputs/mini/.parts/x"),
        ("see /opt/secret.", "see secret."),
        ("output_dir = '/opt/secret/a b'", "output_dir = 'a b'"),
        ("File \x1b[32m/opt/secret/a.py:3\x1b[39m", "File \x1b[32ma.py:3\x1b[39m"),
        ("file:///opt/secret/a", "a"),
        ("next=%2Fopt%2F%73ecret%2Fa", "next=a"),
        ("&#47;opt&#x2F;secret/a &amp; /opt/secret&amp;", "a &amp; secret&amp;"),
        ("File ~/plans/a.py", "File a.py"),
        # Part of something else.
        ("https://host/opt/secret/x", "https://host/opt/secret/x"),
        ("abc+/opt/secret/x", "abc+/opt/secret/x"),
        ("/opt/secrets/x", "/opt/secrets/x"),
        # Of others that tell of a user or a project, the last name stays.
        ("cannot read '/srv/clients/acme/The Secret.csv' (1)", "cannot read 'The Secret.csv' (1)"),
        ("/home/Alice/x.csv, /home/Alice, ~/clients/acme/a.py.", "x.csv, ~, a.py."),
        (r"C:\Users\alice\x.csv and C:/Users/Alice", "x.csv and ~"),
    ],
)
def test_folders_are_taken_out_of_texts(text, rest):
    assert shared.without(["/opt/secret", "~/plans"])(text) == rest


@pytest.mark.parametrize("path", ["/opt/secret", "/home/Alice", "/Users/Alice", "/mnt/disk", "/srv/acme", "/root"])
def test_a_folder_is_found_whatever_follows_and_however_it_is_written(path):
    ends = [")", ",", ";", ":", "]", ".", " ", "&amp;", "&quot;", "/x.csv", "%2Fx", "\\n", '"', "\x1b[0m", ""]
    found = {end: shared.named_in(f"see ({path}{end}", ["/opt/secret"]) for end in ends}
    assert {end for end, name in found.items() if not name.startswith(path)} == set()
    coded = path.replace("/", "%2F")
    for text in (coded, path[:1] + f"%{ord(path[1]):02x}" + path[2:], path.replace("/", "\\/"), f"file://{path}"):
        assert shared.named_in(f'"{text}"', ["/opt/secret"]), text
    assert shared.named_in(f"first line\\n{path}", ["/opt/secret"])


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/home/Alice",
        "https://example.org/?next=/home/Alice",
        "a man/woman of the home/garden",
        # A system's own say nothing of a user.
        "/usr/lib/python3.12/site.py and /tmp/ipykernel_7/8.py, /opt/conda/bin",
        "rooted, /rooted, /root-cause, /homes/x, /mnt, /home",
        "data:image/png;base64,iVBOR/mnt/x+/root/X",
        "</home><root/>",
    ],
)
def test_what_is_no_folder_of_anybody_is_left(text):
    assert shared.named_in(text, ["/opt/secret"]) == ""
    assert shared.without(["/opt/secret"])(text) == text


def test_keys_of_the_environment_and_secrets_of_urls_are_blotted(monkeypatch):
    monkeypatch.setenv("OURS", "ours-1234567")
    monkeypatch.setenv("SOME_API_KEY", "some-1234567")
    given = {"a": "ours-1234567", "b": ["some-1234567", "https://example.org/a.jpg?sig=word"]}
    blotted = {"a": "[key]", "b": ["[key]", "https://example.org/a.jpg?sig=[key]"]}
    assert shared.without([], {"endpoint": {"key_variable": "OURS"}})(given) == blotted
    assert shared.without([])(given) == blotted | {"a": "ours-1234567"}


@pytest.mark.long
def test_of_a_user_s_own_folder_nothing_is_told(tmp_path, monkeypatch):
    home = str(tmp_path / "alice")
    monkeypatch.setenv("HOME", home)
    clean = shared.without(shared.folders({}, f"{home}/project/outputs"))
    assert clean(f"in {home}. And {home}/x,") == "in ~. And x,"
    # Of what lies there the last name alone is told, but in the folders that are named, the path from them.
    assert clean(f"cannot read '{home}/My Clients/acme/x.csv'") == "cannot read 'x.csv'"
    assert clean(f"{home}/clients/acme/x.csv, ~/project/outputs/mine/a.csv") == "x.csv, mine/a.csv"


def test_keys_stay_apart_and_images_as_they_are():
    clean = shared.without(["/srv/a", "/srv/b"])
    given = {"/srv/a/in": 1, "/srv/b/in": ["/srv/b/x", 2, None], "image/png": "aa /srv/a/in"}
    assert clean(given) == {"in": 1, "in (2)": ["x", 2, None], "image/png": "aa /srv/a/in"}


def test_folders_are_those_of_the_machine_and_of_what_is_named_and_those_that_tell_of_nobody_are_not(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = shared.folders({"settings": {"corpus": "/data/secret/a.csv", "gender": "fairface:/w/f.st"}}, "/out/run")
    assert {"/data/secret", "/w", "/out/run", str(tmp_path)} <= set(found)
    assert not {"", "/", "~"} & set(found)
    # URLs are none, and a file right below a root leaves its neighbours untold.
    given = {"settings": {"url": "https://example.org/v1"}, "judge": "plugin:mine:https://example.org/judge"}
    assert shared.without(shared.folders(given))(given) == given
    clean = shared.without(shared.folders({"corpus": "/srv/captions.csv"}))
    assert clean("/srv/captions.csv, /srv/clients/acme/x.csv") == "captions.csv, x.csv"
    monkeypatch.chdir("/usr/lib")
    assert not {"/", "/tmp", "/usr/lib"} & set(shared.telling("/tmp", "/", tmp_path))
