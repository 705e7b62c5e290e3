"""A parameters file is checked whole before anything starts."""

import json
import os
import re

import pytest

from biaslab.errors import ParameterError
from biaslab.io import reading
from biaslab.runs import params

CELL = 'output_dir = ""\nmodel = "all"\nseed = 0\nconfidence = 0.95\nshow = True\nsettings = {}\n'


@pytest.fixture
def project(tmp_path, write_notebook):
    write_notebook(tmp_path / "notebooks/paradox/4_baseline.ipynb", CELL, title="Baseline")
    write_notebook(tmp_path / "notebooks/paired/overall.ipynb", 'output_dir = ""\naspect = "power"\n')
    (tmp_path / "params").mkdir()

    def load(text, **more):
        path = tmp_path / "params" / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return params.load(path, **more)

    return load


def test_load_overrides_replace_file_values(project):
    overrides = ["seed=8", "run=2024", "jobs=1"]
    got = project("run: mine\nseed: 7\ndescription: 2026-13-45\n", overrides=overrides, notebooks=["paradox/*"])
    assert (got.run, got.title, got.jobs, got.values["seed"]) == ("2024", "2024", 1, 8)
    assert [(n.id, n.title) for n in got.selected] == [("paradox/4_baseline", "Baseline")]


def test_variants_of_lists_are_their_product(project):
    got = project("run: mine\nmodel: [A, B]\nseed: [1, 2, 3]\n")
    assert got.sweep == {"model": ["A", "B"], "seed": [1, 2, 3]}
    # 2 models x 3 seeds, the first key slowest.
    assert [values for values, _ in got.variants()] == [
        {"model": model, "seed": seed} for model in "AB" for seed in (1, 2, 3)
    ]


def test_load_mapping_merges_single_overrides(project):
    own = {"steps": 20, "guidance_scale": 3}
    text = f"run: mine\nsettings: {json.dumps({'generation': own})}\n"

    def settings(*overrides):
        return project(text, overrides=overrides).values["settings"]

    assert settings() == {"generation": own}
    # A name alone is that of a group of settings.
    got = settings("settings.generation.steps=30", "captions.corpus=a.csv", "captions.max_captions=9")
    assert got == {"generation": own | {"steps": 30}, "captions": {"corpus": "a.csv", "max_captions": 9}}
    assert settings("captions.downloads.max_side=64")["captions"] == {"downloads": {"max_side": 64}}
    assert settings("settings={baselines: none}") == {"baselines": "none"}
    assert project("run: mine\nsettings:\n").values["settings"] == {}


def test_variants_of_mappings_are_labelled_by_differences(project):
    one, two, three = ("{generation: {steps: 20}}", "{generation: {steps: 20, height: 1}}", "{generation: {steps: 9}}")
    got = project(f"run: mine\nsettings: [{one}, {two}, {three}]\n").variants()
    assert got[1][0]["settings"] == {"generation": {"steps": 20, "height": 1}}
    words = ["generation.steps=20", "generation.steps=20, generation.height=1", "generation.steps=9"]
    assert [in_words["settings"] for _, in_words in got] == words
    same = project(f"run: mine\nsettings: [{one}, {two}]\nmodel: [A, B]\n").variants()
    assert [words for _, words in same] == [
        {"settings": settings, "model": model} for settings in ("defaults", "generation.height=1") for model in "AB"
    ]
    for text, told in ((f"[{one}, {three}]", r"settings is \[\{"), ("{generation: 3}", "generation is 3")):
        with pytest.raises(ParameterError, match=f"{told}.*contains no named values"):
            project(f"run: mine\nsettings: {text}\n", overrides=["generation.steps=1"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: A", "'modle' is not a parameter. Did you mean 'model'?"),
        ("modle: A\nseed: x", "seed is 'x'; it must be a whole number"),
        ("seed: true", "seed is True; it must be a whole number"),
        ("seed: [1, x]", "seed is 'x'; it must be a whole number"),
        ("seed: []", "seed is []; specify at least one value"),
        ("seed: [1, 1]", "seed is [1, 1]; specify at least one value"),
        ("settings: 3", "settings is 3; it must be a mapping"),
        ("run: ../up", "'../up' is not a valid name"),
        ("jobs: -1", "jobs is -1;"),
        ("notebooks: ['paradx/*']", "No notebook matches 'paradx/*'."),
        ("notebooks: []", "notebooks is ();"),
        ("output_dir: x", "'output_dir' is set by the run itself"),
        ("seed: 1\nseed: 2", "(line 3, column 1): the key 'seed' occurs twice."),
        # Valid YAML that is no valid parameter.
        ("? {a: 1}\n: 2", "(line 2, column 3): found unhashable key"),
        ("settings: {1: 2}", "settings has the key 1, which must be a string"),
        ("seed: " + "9" * 5000, "a value is not valid for its type (Exceeds"),
        ("settings: " + "[" * 700 + "]" * 700, "a value is not valid for its type (maximum recursion"),
        ("seed: " + "9" * 1000, "seed is a whole number outside the range"),
        ("seed: !!int abc", "a value is not valid for its type"),
        ('title: "\\0"', "title is '\\x00', which contains a null byte"),
        ('settings: {a: "\\ud800"}', "settings.a is '\\ud800', which contains a null byte or half"),
        ("settings: {a: {b: [1, -.inf]}}", "settings.a.b is -inf; a number must be finite"),
        ("settings: &x {a: *x}", "is nested more than 20 mappings or lists deep"),
        (
            "model: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"k{i}: &b{i} [{', '.join([f'*b{i - 1}' if i else '*a'] * 10)}]\n" for i in range(6)),
            "exceeds the maximum of 100,000 values",
        ),
        ("seed: [1", "cannot be read as YAML (line 3, column 1)"),
        ("seed: !!python/object/apply:os.system [ls]", "cannot be read as YAML (line 2, column 7)"),
    ],
)
def test_load_invalid_parameters_are_named(project, text, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        project(f"{text}\n" if text.startswith("run") else f"run: mine\n{text}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n- b\n", "contains a list"),
        (b"", "is empty"),
        (b"seed: 1\n", "''"),
        (b"run: caf\xe9\n", r"mine\.yaml is not UTF-8 \(line 1: byte 0xe9\); save it as UTF-8\."),
    ],
)
def test_load_file_without_parameters_is_refused(project, tmp_path, content, message):
    (path := tmp_path / "params" / "mine.yaml").write_bytes(content)
    with pytest.raises(ParameterError, match=message):
        params.load(path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "--set 'seed' is not of the form key=value"),
        ("seed=" + "9" * 5000, "the value cannot be read as YAML (a value is not valid for its type"),
        ("model=a\0b", "model is 'a\\x00b', which contains a null byte"),
    ],
)
def test_load_invalid_override_is_named(project, override, message):
    with pytest.raises(ParameterError, match=re.escape(message)) as error:
        project("run: mine\n", overrides=[override])
    assert len(str(error.value)) < 500


def test_load_model_name_suggests_command(project, tmp_path):
    with pytest.raises(ParameterError, match=r"To specify a model, use --set model=NAME\."):
        params.load("SG161222/RealVisXL_V4.0")
    # A file that is misspelt is one.
    project("run: mine\n")
    with pytest.raises(ParameterError, match=r"Did you mean '.*params/mine\.yaml'"):
        params.load(tmp_path / "params" / "mien.yaml")


def test_load_unused_key_is_refused_only_as_override(project):
    text = "run: mine\naspect: x\nnotebooks: ['paradox/*']\n"
    assert dict(project(text).values) == {}
    with pytest.raises(ParameterError, match="'aspect' is a parameter of other notebooks, but of none in this run"):
        project(text, overrides=["aspect=y"])


@pytest.mark.parametrize("value", ["on", "2024", "my #1.csv", "a: b", "~", "{x}", "null"])
def test_load_override_keeps_text_verbatim(project, value):
    assert project("run: mine\n", overrides=[f"model={value}"]).values["model"] == value
    assert project("run: mine\n", overrides=["model=[A, B]"]).values["model"] == ["A", "B"]


def test_load_untagged_notebook_is_skipped_by_default(project, tmp_path):
    (tmp_path / "notebooks" / "Untitled.ipynb").write_text('{"cells": [], "metadata": {}}')
    (tmp_path / "notebooks" / "empty.ipynb").write_text("")
    assert len(project("run: mine\n").selected) == 2
    # Selected by its name, or by a pattern that matches others, it has a problem.
    with pytest.raises(ParameterError, match=r"Untitled\.ipynb: It has no cell tagged 'parameters', so a run"):
        project("run: mine\nnotebooks: [Untitled]\n")
    assert [n.problem[:14] for n in project("run: mine\nnotebooks: ['[Up]*']\n").selected] == ["", "", "It has no cell"]


def test_find_notebooks_lists_required_and_optional_tables(tmp_path, write_notebook):
    cells = (
        "%matplotlib inline\nwomen = study.load(paradox.percent_female)",
        "women = study.load(paradox.percent_female)\npairs = study.load(paradox.caption_pairs, optional=True)",
        "printed = study.memoize(paired.people, study.load(paired.printed.printed_value))",
        'if study.has_table(paired.people):\n    study.load("paired_prompts")',
        'study.has_table("paired_pair_images")\nother.load()\nload(paradox.similarity)',
    )
    write_notebook(tmp_path / "a.ipynb", CELL, *cells)
    (notebook,) = params.find_notebooks(tmp_path)
    needed = {"paradox_percent_female", "paired_printed_value", "paired_prompts"}
    assert notebook.required_tables == needed
    assert notebook.used_tables == needed | {"paradox_caption_pairs", "paired_people", "paired_pair_images"}


def test_load_parameter_type_follows_default(project, tmp_path, write_notebook):
    cell = "from typing import Final\nrate: float = 1.0\nn = None\npair = (1, 2)\nodd = {1}\nname = ''\nwords = []\n"
    write_notebook(tmp_path / "notebooks/own/typed.ipynb", cell)

    def values(*overrides):
        return dict(project("run: mine\nnotebooks: ['own/*']\n", overrides=overrides).values)

    assert values("rate=2", "name=2024", "n=null") == {"rate": 2.0, "name": "2024", "n": None}
    # A list is one value where the parameter is one.
    assert values("pair=[3, 4]", "words=[a]", "n=[1, 2]") == {"pair": [3, 4], "words": ["a"], "n": [1, 2]}
    for override, message in (("rate=x", "rate is 'x'; it must be a number"), ("odd=3", "left at its default")):
        with pytest.raises(ParameterError, match=message):
            values(override)


# Cells for which a run would record 77 and the notebook would compute with another value.
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["a, seed = 1, 2"], "line 1 does not"),
        (["seed = int('1')"], "line 1 does not"),
        (["a = 1\nseed = a"], "line 2 does not"),
        (["seed: int"], "line 1 does not"),
        (["%matplotlib inline\nseed = 1"], "line 1 does not"),
        (["seed: int = 1", "x = 2\nseed = 5"], "Cell 3 sets seed again"),
        (["seed = 1", "", "seed: int = 5"], "Cell 4 sets seed again"),
    ],
)
def test_load_unsettable_parameter_is_refused_with_line(project, tmp_path, write_notebook, cells, message):
    path = write_notebook(tmp_path / "notebooks/own/x.ipynb", *cells)
    with pytest.raises(ParameterError) as error:
        project("run: mine\nnotebooks: ['own/*']\n")
    assert str(error.value).startswith(f"{path}: ") and message in str(error.value)
    # With others, it is one that fails; where a key is unknown, it may have had it.
    both = "run: mine\nnotebooks: ['own/*', 'paradox/*']\n"
    assert [bool(n.problem) for n in project(both).selected] == [False, True]
    with pytest.raises(ParameterError, match=r"'other' is not a parameter\. .* must assign|sets seed again"):
        project(f"{both}other: 1\n")


def test_load_injected_parameters_first_are_refused(project, tmp_path, write_notebook):
    path = write_notebook(tmp_path / "notebooks/own/x.ipynb", "seed = 1", "seed")
    whole = json.loads(path.read_text())
    for cell, tag in zip(whole["cells"], ("title", "injected-parameters", "parameters"), strict=True):
        cell["metadata"] = {"tags": [tag]}
    path.write_text(json.dumps(whole))
    with pytest.raises(
        ParameterError, match="A cell above the cell tagged 'parameters' contains values of an earlier run"
    ):
        project("run: mine\nnotebooks: ['own/*']\n")


def test_load_unreadable_notebooks_do_not_affect_others(project, tmp_path, write_notebook):
    own = tmp_path / "notebooks/own"
    good = write_notebook(own / "good.ipynb", "seed = 1")
    (own / "folder.ipynb").mkdir()
    (own / "gone.ipynb").symlink_to("nowhere.ipynb")
    (own / "cut.ipynb").write_text(good.read_text()[:200])
    (own / "list.ipynb").write_text("[]")
    (own / "latin.ipynb").write_bytes(b'{"cells": "\xe9"}')
    (own / "deep.ipynb").write_text("[" * 100_000)
    (own / "odd.ipynb").write_text('{"cells": [{"source": "", "cell_type": "", "metadata": 1}]}')
    (own / "large.ipynb").touch()
    os.truncate(own / "large.ipynb", reading.MAX_BYTES + 1)
    # Reading one would wait for ever.
    os.mkfifo(own / "pipe.ipynb")
    no_notebook = dict.fromkeys(("cut", "list", "deep", "odd"), "It is not a complete notebook in format 4.")
    expected = no_notebook | {
        "folder": "It is a folder, a pipe or a device;",
        "latin": "It is not UTF-8 (line 1: byte 0xe9); save it as UTF-8",
        "gone": "It cannot be read (No such file or directory).",
        "large": "It has 500,000,001 bytes; the maximum is 500,000,000",
        "pipe": "It is a folder, a pipe or a device;",
        "good": "",
    }
    got = project("run: mine\nnotebooks: ['own/*']\nseed: 7\n")
    told = {n.id.removeprefix("own/"): n.problem for n in got.selected}
    assert set(told) == set(expected)
    assert {name: problem[: len(expected[name])] for name, problem in told.items()} == expected
    assert (told["good"], dict(got.values)) == ("", {"seed": 7})


@pytest.mark.parametrize("value", ["-" * 20_000 + "1", "1" + "+1" * 50_000, "a." * 400 + "b", "[{[]}]", '"\0"'])
def test_find_notebooks_invalid_python_is_a_problem(tmp_path, write_notebook, value):
    write_notebook(tmp_path / "nb/paradox/a.ipynb", f"seed = {value}")
    write_notebook(tmp_path / "nb/paradox/b.ipynb", "seed = 1", f"study.load({value})")
    invalid_notebook, other = params.find_notebooks(tmp_path / "nb")
    assert invalid_notebook.problem.startswith(
        "Statements in the cell tagged 'parameters' must assign one literal to one name"
    )
    # In any other cell it is the notebook's own matter.
    assert other.problem == ""


def test_variants_above_limit_are_refused(project):
    """Three lists of 300 make 27 million of them, each a mapping."""
    lists = {"model": [f"m{n}" for n in range(300)], "seed": [*range(300)]}
    lists["confidence"] = [0.5 + n / 1000 for n in range(300)]
    told = r"yield 27,000,000 variants \(300 of model times 300 of seed times 300 of confidence\).*maximum is 1,000"
    with pytest.raises(ParameterError, match=told):
        project("run: mine\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in lists.items())).variants()
    assert len(project(f"run: mine\nseed: {[*range(1000)]}\n").variants()) == 1000
    with pytest.raises(ParameterError, match="yield 1,001 variants"):
        project(f"run: mine\nseed: {[*range(1001)]}\n").variants()
