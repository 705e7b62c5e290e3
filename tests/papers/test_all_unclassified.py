"""If no person can be classified, every notebook finishes and no finding is significant.

Images are generated once, by the embedded models; they are replaced by black, withheld or unreadable ones, each of a
third, or judges answer neither.
"""

import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import inline_kernels
import matplotlib.pyplot as plt
import numpy as np
import pytest
import yaml

from biaslab.generation.images import GeneratedImages
from biaslab.hub.image_sources import DescribedImages, UnreadableImage
from biaslab.judges import blip, faces, instance_models, objects, zero_shot
from biaslab.papers.findings import Finding
from biaslab.papers.paired import prompts as paired_prompts
from biaslab.pipeline import Pipeline
from biaslab.runs import jobs, params
from biaslab.schema import tables

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]

SMALL = {
    "captions": {
        **{"occupations": "[nurse, engineer]", "max_captions": 3000, "per_occupation": 8},
        **{"candidates_per_occupation": 10, "nearest_per_prompt": 3},
    },
    "generation": {"images_per_prompt": 2, "caption_prompts_per_occupation": 3, "steps": 1},
    "paired": {"n_occupations": 2, "power_samples": 1, "single_images": 1, "three_person_prompts": 2},
    "dalleval": {"n_scenes": 2, "n_professions": 2, "social_images": 1, "calibration_images": 10},
    "triplets": {"n_triplets": 4, "single_triplet_images": 2, "calibration_images": 10},
    "calibration": {
        **{
            "unbiased_captions": 3000,
            "unbiased_per_occupation": 5,
            "matched_captions": 5,
            "world_images": 2,
            "test_images": 20,
        },
    },
    "settings": {"baselines": "none"},
}
# Notebooks that use none of these images: texts and latents, and the training curve in the model's folder.
OF_NO_IMAGES = {"triplets/4_disparities", "triplets/7_1_one_prompt", "triplets/beyond_noise", "dalleval/5_2_skills"}
OUTCOMES = {"unseen": {"black", "blocked", "unreadable"}, "neither": {"uncertain"}}


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """Return the cache of the cases with embedded judges: their images differ by digest."""
    return tmp_path_factory.mktemp("made")


def unseen(image_id, image):
    """Return the replacement of an image: black, damaged or withheld."""
    return (np.zeros_like(image), UnreadableImage("damaged"), UnreadableImage("blocked"))[
        zlib.crc32(image_id.encode()) % 3
    ]


def show(monkeypatch, case, instead):
    """Replace each generated image and each image of a caption by ``instead`` of it."""
    complete, read, training = GeneratedImages.complete, GeneratedImages.read, Pipeline._training_source

    def shown(ids, images):
        return [instead(one, image) for one, image in zip(ids, images, strict=True)]

    def completed(self, **options):
        complete(self, **options).digest += case
        withheld = [getattr(instead(one, np.zeros(1)), "reason", "") == "blocked" for one in self.table["image_id"]]
        self.table["status"] = self.table["status"].mask(withheld, "blocked")
        return self

    def replaced(self, caption_ids):
        result = training(self, caption_ids)
        other = DescribedImages(result, result.table)
        other.digest, other.read = result.digest + case, lambda ids: shown(ids, result.read(ids))
        return other

    monkeypatch.setattr(GeneratedImages, "complete", completed)
    monkeypatch.setattr(GeneratedImages, "read", lambda self, ids: shown(ids, read(self, ids)))
    monkeypatch.setattr(Pipeline, "_training_source", replaced)


def answer_neither(monkeypatch):
    """Let judges find the requested number of faces, no clear gender, no objects, and give meaningless answers."""

    def side_by_side(self, images):
        people = [round(image.shape[1] / image.shape[0]) for image in images]
        return [[faces.Face(64 * k + 4, 4, 64 * k + 60, 60, 0.9) for k in range(n)] for n in people]

    def nothing(self, images):
        return [(np.zeros((0, len(self.options.classes))), np.zeros((0, 4)))] * len(images)

    monkeypatch.setattr(faces.HubFaces, "faces", side_by_side)
    monkeypatch.setattr(zero_shot.ZeroShot, "probabilities", lambda self, images, _: np.full((len(images), 2), 0.5))
    monkeypatch.setattr(blip.Model, "ask", lambda self, images, of, questions: ["mauve"] * len(questions))
    monkeypatch.setattr(objects.ObjectDetector, "detect", nothing)
    monkeypatch.setattr(instance_models.Segmenter, "segment", lambda self, images: [[] for _ in images])


@pytest.mark.parametrize("case", OUTCOMES)
def test_notebooks_of_unclassified_images_claim_nothing(case, made_once, tmp_path, root, monkeypatch, capsys):
    # Close figures of other tests in this process.
    plt.close("all")
    store = made_once
    if case == "neither":
        # Its judges' answers are cached separately, also for drawings with ground truth; images are the same.
        store = tmp_path / "store"
        for stage in made_once.glob("generated*"):
            shutil.copytree(stage, store / stage.name)
    show(monkeypatch, case, unseen if case == "unseen" else lambda _, image: image)
    if case == "neither":
        answer_neither(monkeypatch)
    # The occupations prompted with power roles: each takes eight images of the same case.
    few, sampled = paired_prompts.power_occupations()[::6], paired_prompts.sampled_roles
    monkeypatch.setattr(
        paired_prompts, "sampled_roles", lambda *of: {k: roles for k, roles in sampled(*of).items() if k[1] in few}
    )
    # Drawings with ground truth, on which judges are tested.
    monkeypatch.setattr("biaslab.papers.paired.measure.RENDERS", 20)
    # Few images are inconclusive anyway: here verdicts must be inconclusive with any number of units.
    monkeypatch.setattr(Finding, "min_units", 0)
    # Figures are drawn and not saved: what a run writes is tested with runs.
    monkeypatch.setattr("biaslab.study.study._save_png", lambda figure, path, page: path.touch())
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    prompts = tmp_path / "own.csv"
    people = [("nurse", "neutral"), ("nurse", "person"), ("chef", "neutral"), ("chef", "person")]
    rows = "".join(f"a photo of the face of a {group},{group},{condition},2\n" for group, condition in people)
    prompts.write_text("prompt,group,condition,n\n" + rows)
    file = root / "world" / "params" / "mini.yaml"
    listed = [*yaml.safe_load(file.read_text(encoding="utf-8"))["notebooks"], "custom/*"]
    loaded = params.load(
        file,
        overrides=[
            *(
                "run=nobody",
                "bootstrap_replicates=200",
                f"compute.cache={store}",
                f"custom.prompts_file={prompts}",
                f"notebooks={json.dumps(listed)}",
            ),
            *(f"{group}.{name}={value}" for group, small in SMALL.items() for name, value in small.items()),
        ],
    )
    planned = [replace(job, folder=tmp_path / "outputs") for job in jobs.plan(loaded)]
    # All except those of annotations and of published values; and those of the synthetic world.
    notebooks = {f"{path.parent.name}/{path.stem}" for path in root.glob("notebooks/*/*.ipynb")}
    other_sources = {"paradox/ratings", "synthesis/specification_curve", "synthesis/stated_numbers"}
    assert notebooks - {job.notebook.id for job in planned} == other_sources
    assert not any(job.reason for job in planned)
    assert {"synthesis/world", "synthesis/calibration"} < {job.notebook.id for job in planned}
    for job in planned:
        finish(job)
        folder, name = Path(job.parameters["output_dir"]), job.notebook.id
        records = json.loads((folder / "records.json").read_text(encoding="utf-8"))
        for result in records["findings"]:
            assert result["printed"] or not result["is_significant"] or name in OF_NO_IMAGES, (name, result)
            assert "nan" not in json.dumps(result).lower().replace("-", " ").split(), (name, result)
    measured = tmp_path / "outputs/.parts/measured"
    for name in ("paradox_percent_female", "paired_percent_female"):
        shares = tables.read(measured / f"{name}.csv", name)
        shares = shares[shares["source"] == "generated"] if "source" in shares else shares
        assert len(shares) and shares["percent_female"].isna().all() and (shares["n"] == 0).all()
    # Reasons are counted: every image has one.
    counted = tables.read(measured / "paradox_judgement_outcomes.csv", "paradox_judgement_outcomes")
    generated_rows = counted[(counted["n"] > 0) & (counted["source"] == "generated")]
    assert set(generated_rows["status"]) == OUTCOMES[case]
    by_prompt = generated_rows.groupby(["approach", "prompt", "occupation"])
    assert (by_prompt["n"].sum() == by_prompt["n_images"].first()).all()
    output = capsys.readouterr().out
    assert "or no person could be classified" in output and "Every value is missing" in output


def finish(job):
    """Run a job's notebook in this process; it leaves no figure open."""
    inline_kernels.run(job.notebook.path, job.parameters)
    assert not plt.get_fignums(), job.notebook.id
