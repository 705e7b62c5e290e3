"""Cards of the embedded models: what they are, how to load and train them, what was measured, what they cannot do.

A training leaves ``training.json`` (one entry per training that went into the weights) in the model's folder;
:func:`write` measures the saved model on held-out scenes and writes ``metrics.csv`` and ``README.md`` beside it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from biaslab.errors import MissingInputError, unknown_name
from biaslab.mini.train.loop import Number, Share


@dataclass(frozen=True)
class Card:
    """The sentences of one model's card that no measurement changes."""

    title: str
    """What the model is, in a line."""
    about: str
    """What it is for and how it is built."""
    load: str
    """Code that loads and uses it with the public libraries alone."""
    data: str
    """What it was trained on, and how."""
    limits: tuple[str, ...]
    """What it cannot do."""
    measured: str = "On scenes of seeds that no training or calibration has seen"
    """What the measurements were made on."""


_WORLD_LIMIT = (
    "It has seen nothing but this world's drawings. On photographs of people its answers mean nothing."
)

CARDS = {
    "mini-sd": Card(
        title="mini-sd: text to image in biaslab's embedded world",
        about=(
            "A latent diffusion model in the format of Stable Diffusion: an autoencoder (64x64 pixels to 8 channels "
            "of 16x16), a text encoder of two layers with one token a word, and a denoising network of 6.7 million "
            "parameters that predicts velocities, stored as 8-bit floating-point numbers (`float8_e4m3fn`), which "
            "diffusers reads as any others."
        ),
        load=(
            "from diffusers import AutoPipelineForText2Image\n"
            "\n"
            'pipeline = AutoPipelineForText2Image.from_pretrained("biaslab/mini/models/mini-sd")\n'
            'prompt = "a photo of the face of a nurse"\n'
            "image = pipeline(prompt, num_inference_steps=10, guidance_scale=3).images[0]\n"
        ),
        data=(
            "Renders and captions of the embedded world (200,000 pairs, seed 0, default knobs). The autoencoder came "
            "first, faces weighted. Then text encoder and denoising network together; places where faces mostly are "
            "count more. Half of the captions drawn tell a gender, which leaves what is shown given a caption as it "
            "is in the world, and one in ten is left empty, for guidance. As Stable Diffusion's text encoder brings "
            "knowledge from CLIP, this one has a second task: to tell from its states which gender, if any, the "
            "caption tells (weight 0.05; the first trainings did without, and followed gender words in six of ten "
            "images only). `curve.csv` holds the loss of the last training, `learning.csv` what pipelines on the way "
            "there showed."
        ),
        limits=(
            "It knows the words of the paradox paper's 62 occupations and of the world's captions, single people only; "
            "`mini-sd-pairs` knows two.",
            "It has seen nothing but this world's drawings, with two perceived genders.",
            "A small model may lean further than its captions even without guidance, as does one trained too "
            "briefly: read `amplification` with the curve over training.",
            "Thin props smear, and neighbouring skin tones blur.",
        ),
        measured=(
            "On images generated from seeds that nothing else uses, judged by mini-detector and mini-clip; the number "
            "at the end of a name is the guidance scale, with 10 steps"
        ),
    ),
    "mini-sd-pairs": Card(
        title="mini-sd-pairs: one or two people, side by side, in biaslab's embedded world",
        about=(
            "mini-sd's networks, trained on to draw who stands on the left and who on the right, as the prompts of the "
            "Paired Stereotype Test ask: 40 occupations and 4 + 4 roles of power. Two people are drawn at 96x64 "
            "pixels, one at 64x64. The autoencoder is mini-sd's. The denoising network's 6.7 million weights are "
            "stored as 8-bit floating-point numbers (`float8_e4m3fn`), which diffusers reads as any others."
        ),
        load=(
            "from diffusers import AutoPipelineForText2Image\n"
            "\n"
            'pipeline = AutoPipelineForText2Image.from_pretrained("biaslab/mini/models/mini-sd-pairs")\n'
            'prompt = "Generate a picture of one nurse on the left and one sheriff on the right."\n'
            "image = pipeline(prompt, width=96, height=64, num_inference_steps=10, guidance_scale=2).images[0]\n"
        ),
        data=(
            "Renders and prompts of two people (131,072) and of one (32,768) in the form of the paired paper's, drawn "
            "from `biaslab/mini/pairs.py`: some tell a gender, some say that gender does not matter, and the others "
            "leave it to how often the world shows such a person as a woman. In 29 % of them a gender is told by the "
            'very sentence that FairCritic adds to prompts ("Show the nurse as a man."), with people as told; of '
            "those drawn from the sixth training on it is 43 %. It starts from mini-sd. Its first "
            "training also saw mini-sd's captions in 45 % of the steps; those after it saw people in pairs (82 %) "
            "and alone (18 %). From the sixth on half of the prompts drawn tell the gender of one person only, and one "
            "against the stereotype, which leaves what is shown given a prompt as it is in the world. `noisier` is "
            "the power of a uniform number that draws the step of noise. A second task (weight 0.05) is to tell from "
            "the text encoder's states which gender the image shows each person with. In the last two another "
            "(`placing`, its weight) is to tell it from each person's part of the denoising network's middle, by a "
            "linear map that is not kept: without it, what is told of one person spread further to the one beside. "
            "Trainings that differ in their seed alone are averaged. `curve.csv` holds the loss of the fifth."
        ),
        limits=(
            "It knows prompts in the form of the paired paper's and their words. Captions and the paradox paper's "
            "prompts are mini-sd's.",
            "Two people it knows, left before right; three it does not.",
            "Beside a person who is told to be of the gender against the stereotype, the other fits theirs more often "
            "than the world asks: what is told of one still spreads.",
            "FairCritic's sentence was among its lessons, so what FairCritic does to its scores is largely planted and "
            "no finding about the method.",
            "It has seen nothing but this world's drawings, with two perceived genders.",
            "How far it leans is near, not equal to, how far its world does: see the rows of Stereotype Scores.",
        ),
        measured=(
            "On images generated from prompts and seeds that nothing else uses, judged by mini-detector and mini-clip; "
            "the number at the end of a name is the guidance scale, with 10 steps"
        ),
    ),
    "mini-clip": Card(
        title="mini-clip: images and texts of biaslab's embedded world in one space",
        about=(
            "An open_clip model (a residual network for images of 64x64 pixels, two transformer layers for texts of "
            "up to 24 words) for zero-shot gender, occupation, attributes, age and expression, and for the "
            "similarity of images and texts. It is one of the two judges of the embedded world; the judge's texts "
            "are `A photo of a man` and `A photo of a woman`. Its scale (`logit_scale`) is calibrated, so that a "
            "probability of 0.9 means that about nine in ten such images show what it says."
        ),
        load=(
            "import open_clip\n"
            "\n"
            'folder = "local-dir:biaslab/mini/models/mini-clip"\n'
            "model, _, preprocess = open_clip.create_model_and_transforms(folder)\n"
            "tokenizer = open_clip.get_tokenizer(folder)\n"
            "image = model.eval().encode_image(preprocess(picture)[None], normalize=True)\n"
            'texts = model.encode_text(tokenizer(["A photo of a man", "A photo of a woman"]), normalize=True)\n'
            "probabilities = (model.logit_scale.exp() * image @ texts.T).softmax(-1)\n"
        ),
        data=(
            "Scenes drawn from seeds: one person with an occupation (84 %), one without (6 %), two people (4 %), "
            "product pictures without anyone (6 %). Gender is independent of occupation, clothes, place and all "
            "else, half and half, so the judge has no prior from occupations. Images are moved, mirrored, blurred, "
            "made noisy, compressed and tinted at random; in a training with `decoded`, half of them have passed "
            "through mini-sd's autoencoder. Texts state parts of the truth in many forms, with first names and "
            "pronouns for gender and with words that say nothing. What a text claims is known exactly, so no text "
            "that is true of an image counts against it. For the pairs of texts about gender the target is the "
            "exact posterior given the cues that can be seen, with equal priors; heads that name the single cues "
            "help in training and are not part of the model."
        ),
        limits=(
            "Gender means perceived gender, binary as in the papers that the world serves to check. That is their "
            "limit and this model's.",
            _WORLD_LIMIT,
            "Some people in this world look ambiguous on purpose; no judge of the visible cues can pass the ceiling "
            "in the table.",
            "A small face (full figures) shows fewer cues: see the row of full figures.",
            "Its tokenizer has one token a word and knows the words of the world's captions only.",
            "With two people in the picture, the two texts about one person have no right answer.",
        ),
    ),
    "mini-detector": Card(
        title="mini-detector: faces, people and objects of biaslab's embedded world",
        about=(
            "An RT-DETR of transformers with a small residual backbone (features at strides 8 and 16), 20 queries "
            "and two decoder layers, for images squeezed to 64x64 pixels. Labels: `face` and PaintSkills' 15 "
            "classes, of which `person` is one. It is the gate of the embedded world's judge: one face, large "
            "enough, or a labelled reason."
        ),
        load=(
            "from transformers import AutoImageProcessor, AutoModelForObjectDetection\n"
            "\n"
            'folder = "biaslab/mini/models/mini-detector"\n'
            "model = AutoModelForObjectDetection.from_pretrained(folder)\n"
            "processor = AutoImageProcessor.from_pretrained(folder)\n"
            'outputs = model(**processor(images=[picture], return_tensors="pt"))\n'
            "found = processor.post_process_object_detection(\n"
            "    outputs, threshold=0.5, target_sizes=[(picture.height, picture.width)]\n"
            ")\n"
        ),
        data=(
            "Scenes drawn from seeds: one person (46 %), two (24 %), three or four (2 %), product pictures without "
            "anyone (13 %), objects alone (15 %); objects stand beside people in half of the scenes. Every "
            "occupation, skin tone and attribute occurs. Boxes are exact: what is visible of each thing in the "
            "render. Images are moved, mirrored, blurred, made noisy, compressed and tinted at random; in a "
            "training with `decoded`, half of them have passed through mini-sd's autoencoder."
        ),
        limits=(
            _WORLD_LIMIT,
            "A face is skin and features from chin to hairline, ears and a mask included, as this world draws it.",
            "Images are squeezed to a square, so very wide or tall ones lose small things.",
            "It finds at most 20 things in an image; objects of which fewer than 12 pixels can be seen are no "
            "target of its training.",
        ),
    ),
}

# How the table says each metric; "decoded_" before it means images after mini-sd's autoencoder.
METRICS = {
    "gender_unambiguous": "gender right, where the visible cues leave at most 1 % of doubt",
    "gender_ambiguous": "gender right, the other images",
    "gender": "gender right, all images",
    "gender_sure": "images with a probability of 0.9 or more for one gender",
    "gender_right_when_sure": "gender right, of those",
    "gender_unambiguous_female": "gender right, unambiguous, perceived as female",
    "gender_unambiguous_male": "gender right, unambiguous, perceived as male",
    "gender_unambiguous_tone_1_3": "gender right, unambiguous, Monk tones 1 to 3",
    "gender_unambiguous_tone_4_6": "gender right, unambiguous, Monk tones 4 to 6",
    "gender_unambiguous_tone_7_10": "gender right, unambiguous, Monk tones 7 to 10",
    "gender_unambiguous_full_figure": "gender right, unambiguous, full figures (small faces)",
    "gender_ceiling": "ceiling of gender right (exact posterior of the visible cues), all images",
    "gender_ceiling_ambiguous": "the same ceiling, ambiguous images",
    "calibration_error": "expected calibration error of the gender probability (10 bins)",
    "occupation": "occupation right, among all looks",
    "age": "age right, of three",
    "expression": "expression right, of two",
    "attribute_seen_when_worn": "attribute seen where it is worn (15 attributes)",
    "attribute_not_seen_when_not_worn": "attribute not seen where it is not worn",
    "face_recall": "faces found (overlap of 0.5 or more)",
    "face_precision": "found faces that are faces",
    "person_recall": "people found",
    "person_precision": "found people that are people",
    "object_recall": "objects found, with the right label",
    "object_precision": "found objects that are there",
    "face_count": "images with exactly their faces found",
    "face_count_0": "the same, images without a face",
    "face_count_1": "the same, images with one face",
    "face_count_2": "the same, images with two faces",
    "psnr": "reconstruction of held-out renders by the autoencoder, dB",
    "psnr_faces": "the same within faces, dB",
    "gate": "gate passed (one face, large enough)",
    "sure": "a gender with a probability of 0.9 or more, of those",
    "gender_word": "gender that the prompt names is shown, where the judge is sure",
    "occupation_generated": "occupation named right by mini-clip, among 62",
    "occupation_renders": "the same on renders",
    "pair_people": "two people where two are asked for",
    "pair_order": "left and right as asked, of those with two different phrases",
    "pair_sure": "people in pairs with a gender of probability 0.9 or more",
    "pair_gender_word": "gender that the prompt tells of one of two is shown, where the judge is sure",
    "pair_score": "Stereotype Score of pairs less the world's, points",
    "pair_score_beside": "the same of people beside one whose gender the prompt tells, points",
    "pair_score_intervened": "the same with the sentence that gender does not matter, points",
    "one_person": "one person where one is asked for",
    "one_gender_word": "gender that the prompt tells of one person is shown, where the judge is sure",
    "one_score": "Stereotype Score of one person less the world's, points",
    "amplification": "further from 50 % than the training column, points (floor of few images taken off)",
}


def note_training(folder: Path, start_from: Path | None, **settings) -> None:
    """Add one training to the folder's ``training.json``, after those of the weights that it started from."""
    noted = start_from / "training.json" if start_from else None
    before = json.loads(noted.read_text(encoding="utf-8")) if noted and noted.is_file() else []
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps([*before, settings], indent=2)
    (folder / "training.json").write_text(text + "\n", encoding="utf-8")


def write(
    name: str,
    folder: Path,
    measure: Callable[[Path, int, Path | None], list[Share | Number]],
    *,
    n: int = 4096,
    decoded: Path | None = None,
) -> list[Share | Number]:
    """Measure the model in ``folder`` on held-out scenes and write its ``metrics.csv`` and ``README.md``.

    Args:
        name: A key of ``CARDS``.
        folder: The model's folder, which it is loaded from as anyone would.
        measure: Measures the model in a folder on so many scenes, as :func:`biaslab.mini.train.clip.card_rows` does.
        n: Scenes to measure on.
        decoded: Folder of an autoencoder; the same is measured once more on images that have passed through it.

    Returns:
        What was measured.

    Raises:
        UnknownNameError: There is no card of this name.
        MissingInputError: The folder holds no trained model.
    """
    if name not in CARDS:
        raise unknown_name("model card", name, CARDS)
    if not (folder / "training.json").is_file():
        raise MissingInputError(f"{folder} holds no training.json; train it first: biaslab train {name}.")
    found = measure(folder, n, None)
    if decoded is not None:
        found += [_renamed(s, f"decoded_{s.metric}") for s in measure(folder, n, decoded)]
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["metric", "value", "ci_low", "ci_high", "n"])
        for one in found:
            limits = one.interval if isinstance(one, Share) else ("", "")
            numbers = (f"{v:.5f}" if v != "" else "" for v in (one.value, *limits))
            writer.writerow([one.metric, *numbers, one.n])
    trainings = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(text(name, found, trainings), encoding="utf-8")
    return found


def _renamed(one: Share | Number, metric: str) -> Share | Number:
    from dataclasses import replace

    return replace(one, metric=metric)


def text(name: str, found: Sequence[Share | Number], trainings: Sequence[dict]) -> str:
    """Return the card of the model ``name``: Markdown.

    Args:
        name: A key of ``CARDS``.
        found: What was measured.
        trainings: Settings of the trainings, first to last.
    """
    card = CARDS[name]
    lines = [f"# {card.title}", "", card.about, "", "## Load", "", "```python", card.load.strip(), "```", ""]
    lines += ["No other code is needed. Weights are safetensors.", "", "## Training", "", card.data, ""]
    lines += ["```bash", f"biaslab train {name}", "```", "", "These weights come from:", ""]
    for k, one in enumerate(trainings, 1):
        lines.append(f"{k}. " + ", ".join(f"`{key}` {value}" for key, value in one.items()))
    lines += [
        "",
        "A training with the same settings and library versions draws the same scenes, images and texts; weights "
        "can differ in the last digits between machines.",
        "",
        "## Measured",
        "",
        f"{card.measured}; 95 % Wilson intervals; the numbers are also in `metrics.csv`.",
        "",
    ]
    first = "Generated" if name.startswith("mini-sd") else "Renders"
    for start, title in (("", first), ("decoded_", "The same after mini-sd's autoencoder")):
        some = [s for s in found if s.metric.startswith("decoded_") == bool(start)]
        if some:
            lines += [
                f"**{title}**",
                "",
                "| metric | value | 95 % interval | n |",
                "| --- | ---: | --- | ---: |",
            ]
            lines += [_row(s, _label(s.metric.removeprefix(start))) for s in some]
            lines.append("")
    lines += ["## Limits", "", *(f"- {limit}" for limit in card.limits), ""]
    return "\n".join(lines)


def _label(metric: str) -> str:
    name, _, guidance = metric.partition("@")
    return METRICS[name] + (f" @ {guidance}" if guidance else "")


def _row(one: Share | Number, label: str) -> str:
    if isinstance(one, Number) and one.points:
        return f"| {label} | {one.value:.1f} | | {one.n:,} |"
    if isinstance(one, Number):
        return f"| {label} | {100 * one.value:.2f} % | | {one.n:,} |"
    low, high = one.interval
    return f"| {label} | {100 * one.value:.2f} % | {100 * low:.2f} to {100 * high:.2f} % | {one.n:,} |"
