"""An audit builds a parameters file from arguments, and refuses invalid ones before any work."""

import re
import shutil

import pytest
from PIL import Image

from biaslab import cli, redact
from biaslab.errors import BiaslabError, ParameterError
from biaslab.generation.models import DiffusersModel
from biaslab.judges import defaults
from biaslab.papers.dalleval.stages import DallEval
from biaslab.pipeline import Pipeline, Settings, paths
from biaslab.planning.plan import plan_of
from biaslab.runs import audit, dry_run, jobs, params, runner
from biaslab.study import sources
from biaslab_world.model import WorldModel

pytest.importorskip("torch", reason="models need the extra 'models'")


def checked(root, *names, overrides=(), **options):
    parameters = audit.make_parameters(names, **options)
    return params.load(runner.PARAMS, given=parameters, overrides=overrides, notebooks_dir=root / "notebooks")


@pytest.fixture
def judges(monkeypatch):
    """Return a set of default judges that are unavailable."""
    missing = set()
    monkeypatch.setattr(defaults, "find_problem", lambda name, *_: f"No {name}." if name in missing else "")
    return missing


@pytest.mark.parametrize(
    ("names", "preset", "corpus"),
    [
        (("mini", "world"), "quick", ""),
        (("mini", "world"), "paper", "mini"),
        (("CompVis/stable-diffusion-v1-4",), "standard", "mini"),
    ],
)
def test_make_parameters_each_preset_loads(root, judges, preset, names, corpus):
    found = checked(root, *names, preset=preset, corpus=corpus)
    settings = Pipeline(names[0], Settings.from_mapping(found.values["settings"])).settings
    assert (found.values["model"], settings.baseline_models) == (names[0], names[1:])
    papers = {"paired", "dalleval", "triplets"} | ({"paradox"} if corpus else set())
    assert {notebook.id.split("/")[0] for notebook in found.selected} == {"synthesis", *papers}
    assert bool(settings.captions.approaches) == bool(corpus)
    # Drawings get judges of drawings, photographs get judges of photographs.
    drawn = "mini" in names
    assert (settings.judging.gender == "mini-clip") == (settings.dalleval.vqa == "mini-vqa") == drawn
    assert settings.judging.faces == ("mini-detector" if drawn else "yunet")
    # Each paper can be audited alone.
    for paper in papers:
        selected = checked(root, *names, papers=[paper], corpus=corpus).selected
        assert {notebook.id.split("/")[0] for notebook in selected} == {paper}


def test_paper_preset_matches_paper_sample_sizes(root):
    given = checked(root, "world", preset="paper", corpus="mini").values["settings"]
    world = Pipeline("world", Settings.from_mapping(given), progress=False)
    # 2,325, 2,160 and 2,700 scenes; 252 social prompts of 9 images; 62 occupations, 4 templates, 500 images.
    assert len(world.part(DallEval).prompts("skills")) == 7185
    assert world.part(DallEval).prompts("social")["n_images"].sum() == 2268
    assert world.texts("generated")["n_images"].sum() == 124_000
    # As params/paired-endpoint.yaml counts the paper's design.
    assert sum(request.n_images for request in plan_of(world).table("paired_people").requests) == 2738


@pytest.mark.parametrize("name", ["CompVis/stable-diffusion-v1-4", "endpoint:dall-e-3", "images:photos"])
def test_default_judges_are_equal_for_all_sources(root, tmp_path, monkeypatch, judges, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "nurse").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "nurse" / "a.png")
    for missing, gender in (((), "dlib"), (("dlib",), defaults.CLIP)):
        judges.update(missing)
        given = audit.make_parameters([name])
        # Papers compare images and texts by an open_clip model; a folder of images has no texts.
        compares = gender == "dlib" and not name.startswith("images:")
        more = {"extra_judges": [defaults.CLIP]} if compares else {}
        assert given["settings"]["judging"] == {"faces": "yunet", "gender": gender} | more
    judges.update({"dlib", defaults.CLIP})
    assert audit.make_parameters([name])["settings"]["judging"] == {"faces": "yunet", "gender": "dlib"}


def test_audit_prints_why_default_judges_were_chosen(judges):
    def sentences(*set_here, name="endpoint:dall-e-3"):
        return audit.describe_defaults(audit.make_parameters([name], set_here=set_here))

    assert [text.split()[0] for text in sentences()] == [f"judging.{n}" for n in ("faces", "gender", "extra_judges")]
    # A judge of the command's is used alone.
    assert [text.split()[0] for text in sentences("judging.gender")] == ["judging.faces"]
    judges.add("dlib")
    (gender,) = sentences("judging.faces")
    assert gender.startswith(f"judging.gender is '{defaults.CLIP}' by default: ") and gender.endswith("No dlib.")
    # The world's models name their judges.
    assert sentences(name="mini") == []


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (("mini",), {"preset": "quik"}, "'quick'"),
        ((), {}, "No model to audit is specified"),
        (("mini", "world", "mini"), {}, "'mini' occurs twice"),
        # One model by two names is one.
        (("model", "link"), {}, "occurs twice"),
        (("nowhere/",), {}, "named 'nowhere/'"),
        (("minni",), {}, "'mini'"),
        (("mini", "endpoint:dall-e-3"), {}, "drawings"),
        (("endpoint:<img src=x onerror=alert(1)>",), {}, "cannot be the name"),
        (("endpoint:",), {}, "cannot be the name"),
        (("x" * 121,), {}, "cannot be the name"),
        (("a\nb",), {}, "cannot be the name"),
        (("owner/name+lara",), {}, "There is no LoRA 'lara'"),
        (("mini",), {"name": "../up"}, "'../up' is not a valid name"),
        (("mini",), {"papers": ["pared"]}, "Did you mean 'paired'?"),
        (("mini",), {"papers": ["paradox"]}, "specify them with --corpus"),
        (("mini",), {"benchmark": "labour.csv"}, "'labour.csv'"),
    ],
)
def test_make_parameters_invalid_arguments_are_refused(tmp_path, monkeypatch, names, options, said):
    monkeypatch.chdir(tmp_path)
    for folder in ("model", "a\nb"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to("model")
    with pytest.raises(ParameterError, match=re.escape(said)):
        audit.make_parameters(names, **options)


@pytest.mark.parametrize(
    ("text", "papers", "said"),
    [
        ("captions.occupations=[nurse]", [], r"captions\.occupations has no effect here.*--corpus"),
        ("generation.images_per_prompt=3", [], r"images_per_prompt has no effect here.*--corpus"),
        (
            "settings.dalleval.n_scenes=3",
            ["paired"],
            r"dalleval\.n_scenes has no effect here: no measurement of this run",
        ),
        ("critic.rounds=2", ["dalleval"], r"critic\.rounds has no effect here: no measurement of this run uses it"),
        ("custom.images_per_prompt=2", [], r"custom\.images_per_prompt has no effect here"),
        ("endpoint.price=2", ["paired"], r"endpoint\.price has no effect here: no selected notebook uses an endpoint"),
    ],
)
def test_plan_setting_without_effect_is_refused(root, text, papers, said):
    parameters = audit.make_parameters(["mini"], preset="quick", papers=papers)
    run = params.load("audit.yaml", given=parameters, overrides=[text], notebooks_dir=root / "notebooks")
    with pytest.raises(ParameterError, match=said):
        jobs.plan(run)


def test_baselines_published_is_added_to_settings(root, tmp_path):
    options = {"notebooks_dir": root / "notebooks", "baselines": "published"}
    for names, expected in ((["mini"], ["published"]), (["mini", "world"], ["world", "published"])):
        run = params.load("audit.yaml", given=audit.make_parameters(names, preset="quick"), **options)
        assert run.values["settings"]["baselines"] == expected
    # Each of several settings has it once; other values are refused.
    several = audit.make_parameters(["mini"], preset="quick")
    several["settings"] = [{"baselines": "published"}, {"captions": {"approaches": []}}]
    run = params.load("audit.yaml", given=several, **options)
    assert [item["baselines"] for item in run.values["settings"]] == [["published"]] * 2
    with pytest.raises(ParameterError, match="must be a mapping"):
        params.load("audit.yaml", given=several | {"settings": 5}, **options)
    # Without published values there is no baseline.
    own_values = audit.make_parameters(["mini"], preset="quick") | {"notebooks": ["custom/*"]}
    (tmp_path / "own.csv").write_text("prompt,group\na photo of the face of a nurse,nurse\n")
    set_here = ["judging.gender=mini-clip", f"custom.prompts_file={tmp_path / 'own.csv'}"]
    run = params.load("audit.yaml", given=own_values, overrides=set_here, **options)
    with pytest.raises(ParameterError, match="The papers contain no published values of these measures"):
        jobs.plan(run)


@pytest.mark.long
@pytest.mark.parametrize(
    ("overrides", "papers", "names"),
    [
        ("", (), ""),
        ("triplets.objects=", (), "triplets/5_co_occurrence triplets/7_3_detector"),
        ("dalleval.detector=", (), "dalleval/4_1_paintskills dalleval/5_2_skills"),
        # Without a gender judge neither is available; skin tones need faces only.
        (
            "dalleval.vqa= judging.gender=",
            ("dalleval",),
            "dalleval/5_3_attributes dalleval/5_3_gender dalleval/beyond_precision",
        ),
        ("judging.faces=", ("dalleval", "triplets"), "dalleval/5_3_skin_tone"),
        (
            "judging.gender=",
            ("paradox",),
            "paradox/4_baseline paradox/5_approaches paradox/6_caption_prompts paradox/8_prompts "
            "paradox/a_6_paraphrases paradox/beyond_precision",
        ),
        # The encoder of captions is needed only for the nearest captions.
        ("captions.encoder=", ("paradox",), "paradox/5_2_nearest"),
    ],
)
def test_plan_empty_judge_omits_notebooks(root, overrides, papers, names):
    options = {"overrides": overrides.split(), "papers": papers, "corpus": "mini" if "paradox" in papers else ""}
    plan_jobs = jobs.plan(checked(root, "mini", preset="quick", **options))
    assert sorted(job.notebook.id for job in plan_jobs if job.reason) == names.split()
    assert bool(jobs.describe_omissions(plan_jobs)) == bool(names)


def test_describe_omissions_lists_notebooks_and_tables(root):
    plan_jobs = jobs.plan(checked(root, "mini", preset="quick", overrides=["dalleval.vqa="]))
    assert {job.notebook.id: job.reason for job in plan_jobs if job.reason} == {
        "dalleval/5_3_attributes": "It needs the table dalleval_attribute_presence. dalleval.vqa is empty, but "
        "drawings of the model 'mini-sd-skills' need a model that answers questions about people. Set it to a model "
        "for drawings."
    }
    assert jobs.describe_omissions(plan_jobs) == [
        "Omitted because dalleval.vqa is empty: notebooks dalleval/5_3_attributes; in other notebooks, tables "
        "dalleval_attribute_presence; in part, or measured with another judge, tables dalleval_average_gender, "
        "dalleval_confusion, dalleval_social_images."
    ]


def test_plan_selected_notebook_without_judge_raises(root):
    def plan(notebook):
        options = {"overrides": ["dalleval.vqa="], "notebooks": [notebook], "notebooks_dir": root / "notebooks"}
        return jobs.plan(params.load(runner.PARAMS, given=audit.make_parameters(["mini"], preset="quick"), **options))

    with pytest.raises(ParameterError, match=r"dalleval/5_3_attributes was selected but cannot run\. It needs"):
        plan("dalleval/5_3_attributes")
    assert [job.reason for job in plan("dalleval/5_3_skin_tone")] == [""]


@pytest.mark.long
def test_plan_unset_judge_raises_only_where_required(root, folders, tmp_path, monkeypatch):
    # The tokenizer of this model has a small vocabulary.
    monkeypatch.setattr(DiffusersModel, "check_texts", lambda self, prompts: None)
    model = folders("sd1")
    settings = {"baselines": "none", "judging": {"faces": "whole image"}}
    given = {"run": "r", "source": "pipeline", "model": model, "settings": settings}

    def plan(notebook):
        parameters = {**given, "notebooks": [notebook]}
        return jobs.plan(params.load("p.yaml", given=parameters, notebooks_dir=root / "notebooks"))

    (job,) = plan("dalleval/5_3_skin_tone")
    assert job.reason == "" and set(job.omissions.tables) == {"dalleval_average_gender"}
    for notebook, setting in (("dalleval/5_3_gender", "dalleval.vqa"), ("dalleval/4_1_*", "dalleval.detector")):
        with pytest.raises(
            ParameterError, match=f"{setting} is empty, but .* To skip these measurements, set it to ''"
        ):
            plan(notebook)
    # All that it has would be found in images.
    with pytest.raises(ParameterError, match=r"triplets\.objects is empty, but"):
        plan("triplets/5_*")


def error_of(root, *names, **options):
    with pytest.raises(BiaslabError) as error:
        dry_run.image_requests(jobs.pipelines(jobs.plan(checked(root, *names, **options))))
    return str(error.value)


# Judges without missing dependencies.
SMALL = ["judging.faces=mini-detector", "judging.gender=mini-clip"]


def test_make_parameters_model_with_loras_is_one_model(root, tmp_path, folders, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders("sd1"), "a+b")
    (tmp_path / "lora.safetensors").write_bytes(b"")
    given = audit.make_parameters(["a+b+lora.safetensors:0.8", "owner/name+owner/lora"], preset="quick")
    assert given["run"] == "audit-a-b-lora-0.8-owner-name-owner-lora-quick"
    assert given["title"] == "Audit of a+b+lora:0.8, owner/name+owner/lora"
    assert audit.make_parameters(["owner/name"], title="Which model?")["title"] == "Which model?"
    model, settings = paths.resolve_paths(given["model"], given["settings"])
    assert model == f"{tmp_path}/a+b+{tmp_path}/lora.safetensors:0.8"
    assert settings["baselines"] == ["owner/name+owner/lora"]
    assert redact.basename(model) == "a+b+lora.safetensors:0.8"
    assert redact.redact(model, redact.sensitive_texts(model)) == "a+b+lora.safetensors:0.8"


def test_model_folders_of_same_basename_are_refused(root, tmp_path, folders):
    both = [str(shutil.copytree(folders("sd1"), tmp_path / place / "model")) for place in "ab"]
    assert "'model'" in error_of(root, *both, overrides=SMALL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "endpoint.url"),
        (["endpoint.url=http://127.0.0.1:9/v1"], "endpoint.price"),
        (["endpoint.url=http://127.0.0.1:9/v1", "endpoint.price=0.5"], "endpoint.cost_limit"),
    ],
)
def test_endpoint_without_url_or_price_is_refused(root, given, said):
    assert said in error_of(root, "endpoint:some-model", overrides=[*given, *SMALL])


@pytest.mark.long
def test_load_measured_baselines_append_rows_per_model(tmp_path):
    settings = {"baselines": ["mini"], "compute": {"cache": str(tmp_path)}}
    settings |= {"dalleval": {"n_scenes": 2, "n_professions": 1, "social_images": 1}, "generation": {"steps": 1}}
    both = Pipeline("world", Settings.from_mapping(settings), progress=False)
    frame = sources.load_measured("dalleval_skill_verdicts", source="pipeline", pipeline=both)
    single_model = Pipeline("mini", Settings.from_mapping(settings | {"baselines": "none"}), progress=False)
    own_values = sources.load_measured("dalleval_skill_verdicts", source="pipeline", pipeline=single_model)
    assert list(dict.fromkeys(frame["model"])) == ["world", "mini"]
    assert frame[frame["model"] == "mini"].reset_index(drop=True).equals(own_values)
    # Prompts are the same for all models and are listed once.
    parameters = sources.load_measured("dalleval_skill_prompts", source="pipeline", pipeline=both)
    assert len(parameters) == 6 and parameters["prompt_id"].is_unique


@pytest.mark.long
def test_dry_run_counts_images_and_generates_none(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    drawn = []
    said = dry_run.describe_images
    monkeypatch.setattr(
        dry_run, "describe_images", lambda found, measured: drawn.extend(found) or said(found, measured)
    )
    monkeypatch.setattr(WorldModel, "generate", None)
    options = ["--preset", "quick", "--dry-run", "--notebooks-dir", str(root / "notebooks")]
    assert cli.main(["audit", "world", *options, "--set", "dalleval.n_scenes=7"]) == 0
    out = capsys.readouterr().out
    found = {item.kind: item.n_images for item in drawn}
    assert out.startswith("setting ") and "price  images\n" in out and " drawings\n" in out
    # 7 scenes of each of 3 skills; 10 professions and none, 3 words, 6 images.
    assert (found["skills"], found["social"]) == (21, 198) and "219" in out
    assert f"{sum(found.values()):,}" in out
    # The inputs of prompts are in the cache; there is no run.
    assert not list(tmp_path.glob("outputs/[!.]*"))


def test_saved_params_file_reproduces_run(tmp_path, write_notebook, inline):
    cell = 'output_dir = ""\nsource = "published"\nmodel = "all"\nsettings = {}\nshare = 0.5\n'
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", cell)
    given = {"run": "r", "title": "A: title", "description": "é", "model": "SD 1.4", "share": 0.25}
    whole = params.load(runner.PARAMS, given=given, notebooks_dir=tmp_path / "notebooks")
    record = runner.run(whole, outputs=tmp_path / "outputs", progress=False)
    assert (record["status"], record["params_file"]) == ("ok", runner.PARAMS)
    reloaded_params = params.load(tmp_path / "outputs/r" / runner.PARAMS, notebooks_dir=tmp_path / "notebooks")
    for name in ("run", "title", "description", "notebooks", "jobs", "values"):
        assert getattr(reloaded_params, name) == getattr(whole, name)
    assert runner.run(reloaded_params, outputs=tmp_path / "outputs", progress=False)["up_to_date"]


def test_make_parameters_prompt_conditions_add_notebook(tmp_path):
    (tmp_path / "own.csv").write_text(
        "prompt,group,condition\na nurse,nurse,neutral\na nurse of any gender,nurse,fair\n"
    )
    (tmp_path / "plain.csv").write_text("prompt\na nurse\n")
    notebooks = [
        audit.make_parameters(["mini"], prompts=str(tmp_path / name))["notebooks"] for name in ("own.csv", "plain.csv")
    ]
    assert set(notebooks[0]) - set(notebooks[1]) == {"custom/conditions"}


def test_image_folder_without_prefix_suggests_prefix(tmp_path):
    (tmp_path / "photos" / "nurse").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "photos" / "nurse" / "1.png")
    with pytest.raises(ParameterError, match=rf"is a folder of images.*write images:{tmp_path}/photos"):
        audit.make_parameters([f"{tmp_path}/photos"])
    with pytest.raises(ParameterError, match=rf"Did you mean 'images:{tmp_path}/photos'"):
        audit.make_parameters([f"image:{tmp_path}/photos"])


def test_group_by_is_required_for_ambiguous_folders(tmp_path, judges):
    for path in ("SDXL/nurse/1.png", "SDXL/chef/1.png", "SD/nurse/1.png"):
        (tmp_path / "sets" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "sets" / path)
    name = f"images:{tmp_path / 'sets'}"
    with pytest.raises(BiaslabError, match=r"folder\[1\] .*folder\[2\] .*--group-by 'folder\[1\]'"):
        audit.make_parameters([name])
    assert audit.make_parameters([name], group_by="folder[2]")["settings"]["custom"] == {"group_by": "folder[2]"}
    with pytest.raises(ParameterError, match=r"--group-by is 'prompt'.*images:FOLDER"):
        audit.make_parameters(["mini"], group_by="prompt")


def test_run_names_of_non_latin_folders_are_unique(tmp_path, judges):
    names = []
    for name in ("医生", "护士"):
        (tmp_path / name / "a").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "a/1.png")
        names.append(audit.make_parameters([f"images:{tmp_path / name}"])["run"])
    assert names[0] != names[1] and all(re.fullmatch(r"audit-standard-[0-9a-f]{6}", name) for name in names)
