"""An audit is a parameters file made of arguments: what is asked fits, what cannot be is refused before any work."""

import json
import shutil

import pytest

from biaslab import cli, request
from biaslab.ground import shared
from biaslab.ground.errors import BiaslabError, ParameterError
from biaslab.pipeline import Pipeline, Settings, checks
from biaslab.runs import audit, jobs, params, planning, runner
from biaslab.study import sources
from biaslab_world.model import WorldModel

pytest.importorskip("torch", reason="models need the extra 'models'")


def checked(root, *names, overrides=(), **how):
    asked = audit.params_of(names, **how)
    return params.load(runner.PARAMS, given=asked, overrides=overrides, notebooks_dir=root / "notebooks")


@pytest.mark.parametrize("size", audit.SIZES)
@pytest.mark.parametrize("names", [("mini", "world"), ("CompVis/stable-diffusion-v1-4",)])
@pytest.mark.parametrize("corpus", ["", "mini"])
def test_every_size_is_a_file_that_runs_take(root, size, names, corpus):
    found = checked(root, *names, size=size, corpus=corpus)
    settings = Pipeline(names[0], Settings.of(found.values["settings"])).settings
    assert (found.values["model"], settings.others) == (names[0], names[1:])
    papers = {notebook.id.split("/")[0] for notebook in found.selected}
    assert papers == {"synthesis", "paired", "dalleval", "triplets"} | ({"paradox"} if corpus else set())
    assert bool(settings.captions.approaches) == bool(corpus)
    # Judges of drawings for drawings, of photographs for photographs.
    drawn = "mini" in names
    assert (settings.judging.gender == "mini-clip") == (settings.dalleval.vqa == "mini-vqa") == drawn
    assert settings.judging.faces == ("mini-detector" if drawn else "yunet")


def test_the_papers_size_is_that_of_the_papers(root):
    given = checked(root, "world", size="paper", corpus="mini").values["settings"]
    world = Pipeline("world", Settings.of(given), progress=False)
    # 2,325, 2,160 and 2,700 scenes; 252 social prompts of 9 images; 62 occupations, 4 templates, 500 images.
    assert len(world.dalleval.prompts("skills")) == 7185
    assert world.dalleval.prompts("social")["n_images"].sum() == 2268
    assert world.texts("generated")["n_images"].sum() == 124_000
    # As params/paired-endpoint.yaml counts the paper's design.
    assert world.people.n_images() == 2738


@pytest.mark.parametrize(
    ("names", "how", "said"),
    [
        (("mini",), {"size": "quik"}, "'quick'"),
        ((), {}, "Name a model"),
        (("mini", "world", "mini"), {}, "'mini' is named twice"),
        (("nowhere/",), {}, "no folder 'nowhere/'"),
        (("minni",), {}, "'mini'"),
        (("mini", "endpoint:dall-e-3"), {}, "drawings"),
        (("endpoint:<img src=x onerror=alert(1)>",), {}, "cannot be the name"),
        (("endpoint:",), {}, "cannot be the name"),
        (("x" * 121,), {}, "cannot be the name"),
        (("mini",), {"name": "../up"}, "'../up' is not a name"),
        (("mini",), {"papers": ["pared"]}, "Did you mean 'paired'?"),
        (("mini",), {"papers": ["paradox"]}, "name them with --corpus"),
    ],
)
def test_what_cannot_be_audited_is_refused_at_once(names, how, said):
    with pytest.raises(ParameterError) as refused:
        audit.params_of(names, **how)
    assert said in str(refused.value)


def test_a_run_is_described_by_what_is_asked_for():
    def described(**how):
        return audit.params_of(["mini", "world"], **how)["description"].partition("same models: ")[2]

    assert described(papers=["dalleval"]) == "scenes, and people by profession."
    assert described(papers=["triplets"]) == "triplets of prompts that differ in a gender word."
    assert described().startswith("people alone and in pairs; scenes") and "captions" not in described()
    assert described(corpus="mini").startswith("captions with the images behind them; people alone")


def planned(root, tmp_path, *overrides, **how):
    """Return the reasons of the notebooks that an audit of a model that draws leaves out, and what is said of it."""
    planned = jobs.plan(checked(root, "mini", size="quick", overrides=overrides, **how))
    return {job.notebook.id: job.reason for job in planned if job.reason}, jobs.left_out(planned)


@pytest.mark.parametrize(
    ("text", "papers", "said"),
    [
        ("captions.occupations=[nurse]", [], r"captions\.occupations has no effect here.*--corpus"),
        ("generation.images_per_prompt=3", [], r"images_per_prompt has no effect here.*--corpus"),
        ("settings.dalleval.scenes=3", ["paired"], r"dalleval\.scenes has no effect here: no notebook of dalleval"),
        ("critic.rounds=2", ["dalleval"], r"critic\.rounds has no effect here: no notebook of paired"),
        ("custom.images=2", [], r"custom\.images has no effect here"),
        ("endpoint.price=2", ["paired"], r"endpoint\.price has no effect here: nothing is asked of an endpoint"),
    ],
)
def test_a_setting_without_effect_is_refused(root, text, papers, said):
    asked = audit.params_of(["mini"], size="quick", papers=papers)
    run = params.load("audit.yaml", given=asked, overrides=[text], notebooks_dir=root / "notebooks")
    with pytest.raises(ParameterError, match=said):
        jobs.plan(run)


def test_printed_numbers_beside_a_model_are_a_word_of_the_command(root):
    how = {"notebooks_dir": root / "notebooks", "beside": "published"}
    for names, expected in ((["mini"], ["published"]), (["mini", "world"], ["world", "published"])):
        run = params.load("audit.yaml", given=audit.params_of(names, size="quick"), **how)
        assert run.values["settings"]["compare_with"] == expected
    # Of several settings each has it, once; what is no setting is refused as ever.
    several = audit.params_of(["mini"], size="quick")
    several["settings"] = [{"compare_with": "published"}, {"captions": {"approaches": []}}]
    run = params.load("audit.yaml", given=several, **how)
    assert [one["compare_with"] for one in run.values["settings"]] == [["published"]] * 2
    with pytest.raises(ParameterError, match="must be a mapping"):
        params.load("audit.yaml", given=several | {"settings": 5}, **how)
    # Where nothing is printed, none can stand beside.
    own = audit.params_of(["mini"], size="quick") | {"notebooks": ["custom/*"]}
    run = params.load("audit.yaml", given=own, overrides=["judging.gender=mini-clip"], **how)
    with pytest.raises(ParameterError, match="Nothing is printed of what is measured here"):
        jobs.plan(run)


def test_each_paper_can_be_audited_alone(root):
    for paper in ("paired", "dalleval", "triplets", "paradox"):
        found = checked(root, "mini", papers=[paper], corpus="mini")
        assert {notebook.id.split("/")[0] for notebook in found.selected} == {paper}


def test_what_lacks_a_judge_on_purpose_is_left_out_and_said_before_anything_is_made(root, tmp_path):
    assert planned(root, tmp_path) == ({}, [])
    why, said = planned(root, tmp_path, "dalleval.vqa=")
    assert why == {
        "dalleval/5_3_attributes": "It takes dalleval_attribute_presence, and dalleval.vqa names nothing that answers "
        "questions about people."
    }
    assert said == [
        "Left out, as dalleval.vqa names nothing: the notebooks dalleval/5_3_attributes; of others the tables "
        "dalleval_attribute_presence; and in part, or by another judge, dalleval_average_gender, "
        "dalleval_social_drawings, dalleval_social_images."
    ]
    # Without a judge of gender nobody says either; skin tones need faces alone.
    why, _ = planned(root, tmp_path, "dalleval.vqa=", "judging.gender=", papers=["dalleval"])
    assert set(why) == {f"dalleval/{n}" for n in ("5_3_attributes", "5_3_gender", "beyond_precision")}
    why, _ = planned(root, tmp_path, "judging.faces=")
    assert {name.split("/")[0] for name in why} == {"paired", "dalleval"}
    assert {name for name in why if "dalleval" in name} == {"dalleval/5_3_skin_tone"}
    why, _ = planned(root, tmp_path, "triplets.objects=")
    assert set(why) == {"triplets/5_co_occurrence", "triplets/7_3_detector"}
    why, _ = planned(root, tmp_path, "dalleval.detector=")
    assert set(why) == {"dalleval/4_1_paintskills", "dalleval/5_2_skills"}


def test_a_judge_left_out_of_the_paradox_leaves_captions(root, tmp_path):
    why, said = planned(root, tmp_path, "judging.gender=", corpus="mini", papers=["paradox"])
    lacking = ("4_baseline", "5_approaches", "6_caption_prompts", "8_prompts", "a_6_paraphrases", "beyond_precision")
    assert set(why) == {f"paradox/{name}" for name in lacking}
    assert "paradox_percent_female" in said[0]
    # Who says which captions are the nearest is needed where these are looked at, and nowhere else.
    why, _ = planned(root, tmp_path, "captions.encoder=", corpus="mini", papers=["paradox"])
    assert set(why) == {"paradox/5_2_nearest"}


def test_a_notebook_that_was_asked_for_and_cannot_run_is_an_error(root, tmp_path):
    given = audit.params_of(["mini"], size="quick")

    def plan(notebook, **settings):
        overrides = [f"{name}={value}" for name, value in settings.items()]
        how = {"overrides": overrides, "notebooks": [notebook], "notebooks_dir": root / "notebooks"}
        return jobs.plan(params.load(runner.PARAMS, given=dict(given), **how))

    with pytest.raises(ParameterError, match=r"dalleval/5_3_attributes was asked for and cannot run\. It takes"):
        plan("dalleval/5_3_attributes", **{"dalleval.vqa": ""})
    assert [job.reason for job in plan("dalleval/5_3_skin_tone", **{"dalleval.vqa": ""})] == [""]


def test_a_judge_that_was_never_named_is_asked_for_where_it_is_needed(root, folders, tmp_path, monkeypatch):
    # Its model knows few words.
    monkeypatch.setattr(checks, "check_dalleval", lambda *_, **__: None)
    model = folders("sd1")
    settings = {"compare_with": "none", "judging": {"faces": "whole image"}}
    given = {"run": "r", "source": "pipeline", "model": model, "settings": settings}

    def plan(notebook):
        asked = {**given, "notebooks": [notebook]}
        return jobs.plan(params.load("p.yaml", given=asked, notebooks_dir=root / "notebooks"))

    (job,) = plan("dalleval/5_3_skin_tone")
    assert job.reason == "" and set(job.without.tables) == {"dalleval_average_gender"}
    for notebook, setting in (("dalleval/5_3_gender", "dalleval.vqa"), ("dalleval/4_1_*", "dalleval.detector")):
        with pytest.raises(ParameterError, match=f"{setting} names nothing .* To do without, set it to ''"):
            plan(notebook)
    # All that it has would be found in images.
    with pytest.raises(ParameterError, match=r"triplets\.objects names nothing"):
        plan("triplets/5_*")


def test_one_model_by_two_names_is_one(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="named twice"):
        audit.params_of(["model", "link"])


def test_folders_may_lie_anywhere_and_be_called_as_people_call_them(root, tmp_path, folders, monkeypatch):
    deep = tmp_path / ("x" * 100) / "a, b & c (v2)"
    commit = "0123456789abcdef" * 2 + "01234567"
    kept = tmp_path / "hub" / "models--owner--my--name" / "snapshots" / commit
    for place in (deep, kept):
        shutil.copytree(folders("sd1"), place)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = [f"~/{deep.relative_to(tmp_path)}", str(kept)]
    given = audit.params_of(names)
    assert given["title"] == "Audit of a, b & c (v2), owner/my--name@01234567"
    assert given["run"] == "audit-a-b-c-v2-owner-my-name-01234567-standard"
    judges = ["judging.faces=mini-detector", "judging.gender=mini-clip"]
    opened = params.load(runner.PARAMS, given=given, overrides=judges, notebooks_dir=root / "notebooks")
    settings = Settings.of(request.resolved(dict(opened.values))["settings"])
    pipeline = Pipeline(str(deep), settings, progress=False)
    assert [one.label for one in (pipeline, *pipeline.others)] == ["a, b & c (v2)", "owner/my--name@01234567"]
    (tmp_path / "a\nb").mkdir()
    with pytest.raises(ParameterError, match="cannot be the name of a model"):
        audit.params_of([str(tmp_path / "a\nb")])


def refused(root, *names, **how):
    with pytest.raises(BiaslabError) as error:
        planning.asked(jobs.pipelines(jobs.plan(checked(root, *names, **how))))
    return str(error.value)


def test_a_folder_of_something_else_is_no_model(root, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    given = ["judging.faces=mini-detector", "judging.gender=mini-clip"]
    assert "model_index.json" in refused(root, str(tmp_path), overrides=given)


def test_a_model_with_loras_is_one_model(root, tmp_path, folders, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders("sd1"), "a+b")
    (tmp_path / "lora.safetensors").write_bytes(b"")
    given = audit.params_of(["a+b+lora.safetensors:0.8", "owner/name+owner/lora"], size="quick")
    assert given["run"] == "audit-a-b-lora-0.8-owner-name-owner-lora-quick"
    assert given["title"] == "Audit of a+b+lora:0.8, owner/name+owner/lora"
    model, settings = checks.resolve_paths(given["model"], given["settings"])
    assert model == f"{tmp_path}/a+b+{tmp_path}/lora.safetensors:0.8"
    assert settings["compare_with"] == ["owner/name+owner/lora"]
    assert shared.named(model) == "a+b+lora.safetensors:0.8"
    assert {str(tmp_path)} <= set(shared.folders([model]))
    with pytest.raises(ParameterError, match="There is no LoRA 'lara'"):
        audit.params_of(["owner/name+lara"])


def test_two_folders_of_one_name_cannot_be_told_apart(root, tmp_path, folders):
    for place in ("a", "b"):
        shutil.copytree(folders("sd1"), tmp_path / place / "model")
    given = ["judging.faces=mini-detector", "judging.gender=mini-clip"]
    both = (str(tmp_path / "a/model"), str(tmp_path / "b/model"))
    assert "'model'" in refused(root, *both, overrides=given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "endpoint.url"),
        (["endpoint.url=http://127.0.0.1:9/v1"], "endpoint.price"),
        (["endpoint.url=http://127.0.0.1:9/v1", "endpoint.price=0.5"], "endpoint.cost_limit"),
    ],
)
def test_an_endpoint_needs_to_know_where_and_for_how_much(root, given, said):
    judges = ["judging.faces=mini-detector", "judging.gender=mini-clip"]
    assert said in refused(root, "endpoint:some-model", overrides=[*given, *judges])


def test_other_models_stand_beside_the_first_in_every_table(tmp_path):
    settings = {"compare_with": ["mini"], "compute": {"store": str(tmp_path)}}
    settings |= {"dalleval": {"scenes": 2, "professions": 1, "social_images": 1}, "generation": {"steps": 1}}
    both = Pipeline("world", Settings.of(settings), progress=False)
    frame = sources.measured("dalleval_skill_verdicts", source="pipeline", pipeline=both)
    alone = Pipeline("mini", Settings.of(settings | {"compare_with": "none"}), progress=False)
    own = sources.measured("dalleval_skill_verdicts", source="pipeline", pipeline=alone)
    assert list(dict.fromkeys(frame["model"])) == ["world", "mini"]
    assert frame[frame["model"] == "mini"].reset_index(drop=True).equals(own)
    # What is asked is the same for all, and stands there once.
    asked = sources.measured("dalleval_skill_prompts", source="pipeline", pipeline=both)
    assert len(asked) == 6 and asked["prompt_id"].is_unique


def test_a_dry_run_says_what_would_be_made_and_makes_nothing(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    drawn = []
    said = planning.images
    monkeypatch.setattr(planning, "images", lambda found, measured: drawn.extend(found) or said(found, measured))
    monkeypatch.setattr(WorldModel, "generate", None)
    how = ["--size", "quick", "--dry-run", "--notebooks-dir", str(root / "notebooks")]
    assert cli.main(["audit", "world", *how, "--set", "dalleval.scenes=7"]) == 0
    out = capsys.readouterr().out
    found = {one.kind: one.images for one in drawn}
    assert out.startswith("what ") and "price  pictures\n" in out and " drawings\n" in out
    # 7 scenes of each of 3 skills; 10 professions and none, 3 words, 6 images.
    assert (found["skills"], found["social"]) == (21, 198) and "219" in out
    assert f"{sum(found.values()):,}" in out
    # What prompts are made of is kept in the store; there is no run.
    assert not list(tmp_path.glob("outputs/[!.]*"))
    text = "run: r\nsource: pipeline\nmodel: world\nnotebooks: ['dalleval/5_2_*']\nsettings: {dalleval: {scenes: 7}}\n"
    (tmp_path / "mine.yaml").write_text(text)
    assert cli.main(["run", "mine.yaml", "--dry-run", "--notebooks-dir", str(root / "notebooks")]) == 0
    assert "Images: 21\n" in capsys.readouterr().out and not list(tmp_path.glob("outputs/[!.]*"))


def test_the_file_beside_a_report_gives_the_run_again(tmp_path, write_notebook, warm):
    cell = 'output_dir = ""\nsource = "published"\nmodel = "all"\nsettings = {}\nshare = 0.5\n'
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", cell)
    given = {"run": "r", "title": "A: title", "description": "é", "model": "SD 1.4", "share": 0.25}
    whole = params.load(runner.PARAMS, given=given, notebooks_dir=tmp_path / "notebooks")
    record = runner.run(whole, outputs=tmp_path / "outputs", progress=False)
    kept = tmp_path / "outputs/r" / runner.PARAMS
    again = params.load(kept, notebooks_dir=tmp_path / "notebooks")
    for name in ("run", "title", "description", "notebooks", "jobs", "values"):
        assert getattr(again, name) == getattr(whole, name)
    assert record["params_file"] == runner.PARAMS
    assert runner.run(again, outputs=tmp_path / "outputs", progress=False)["up_to_date"]
    assert json.loads((tmp_path / "outputs/r/run.json").read_text())["status"] == "ok"
