"""Training of mini-sd: tiny runs of the real code."""

from __future__ import annotations

import csv
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra 'models'")

from interruption import steps_of, stopped  # noqa: E402

from biaslab.errors import InputError, MissingInputError, ParameterError  # noqa: E402
from training import autoencoder, diffusion  # noqa: E402
from training.common import Average  # noqa: E402
from training.text import make_tokenizer  # noqa: E402

_TOKENIZER = diffusion.tokenizer_of_world
WORDS = ["a", "photo", "of", "the", "face", "nurse", "doctor", "woman", "man"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def few_words(quick):
    quick.setattr(diffusion, "tokenizer_of_world", lambda: make_tokenizer(WORDS, 8))


@pytest.fixture(scope="module")
def untrained_folder(tmp_path_factory):
    """A pipeline folder with an untrained autoencoder, and data of 40 pairs made up by hand."""
    folder, data = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("data")
    torch.manual_seed(0)
    autoencoder.build().save_pretrained(folder / "vae")
    texts = ["a photo of the nurse", "a photo of the doctor"] * 20
    np.save(data / "ids.npy", diffusion.tokens(make_tokenizer(WORDS, 8), texts))
    np.save(data / "indicators.npy", np.tile([0, 1], 20).astype(np.uint8))
    np.save(data / "shown.npy", np.tile([[2], [1]], (20, 1)).astype(np.uint8))
    latents = np.random.default_rng(0).normal(size=(40, autoencoder.LATENTS, 16, 16)).astype(np.float16)
    np.save(data / "latents.npy", latents)
    return folder, [diffusion.Data(data, 40, 0)]


@pytest.fixture
def small(untrained_folder, tmp_path):
    """A copy of the folder to train in."""
    folder, data = untrained_folder
    shutil.copytree(folder, tmp_path / "model")
    return tmp_path / "model", data


@pytest.fixture(scope="module")
def trained(untrained_folder, tmp_path_factory):
    """A pipeline after one step, and its quality."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(untrained_folder[0], folder, dirs_exist_ok=True)
    quality = diffusion.train(folder, steps=1, batch=2, data=untrained_folder[1], progress=False)
    return folder, quality


def _weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "unet" / "diffusion_pytorch_model.safetensors")


def test_make_tokenizer_maps_words_to_tokens():
    tokenizer = make_tokenizer(["Nurse", "a", ","], 6)
    # Special tokens come first: [pad] 0, [unk] 1, [bos] 2, [eos] 3; then the words in order: "," 4, "a" 5, "nurse" 6.
    assert tokenizer("A nurse, surgeon")["input_ids"] == [2, 5, 6, 4, 1, 3]
    ids = diffusion.tokens(tokenizer, ["a", "a a a a a a a a"])
    assert ids.tolist() == [[2, 5, 3, 0, 0, 0], [2, 5, 5, 5, 5, 3]]


def test_average_update_follows_weights():
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    average = Average({"layer": layer}, decay=0.9)
    torch.nn.init.ones_(layer.weight)
    # Early on the average moves faster: at step 1 the decay is 2 / 11, so it becomes 9 / 11.
    average.update(1)
    assert float(average.averaged["layer"].weight) == pytest.approx(9 / 11)
    # Late, 0.9 of it stays: 0.9 * 9 / 11 + 0.1.
    average.update(1000)
    assert float(average.averaged["layer"].weight) == pytest.approx(0.9 * 9 / 11 + 0.1)


@pytest.mark.long
def test_train_resumed_gives_same_weights(small, tmp_path):
    folder, data = small
    options = {"batch": 4, "data": data, "progress": False, "placing": 0.1, "noisier": 0.6}
    diffusion.train(folder, steps=4, **options)
    complete = _weights(folder)
    # Stopped after 2 of 4 steps, as if killed, and started again.
    state = tmp_path / "state.pt"
    with pytest.MonkeyPatch.context() as patch:
        stopped(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            diffusion.train(folder, steps=4, checkpoint=state, **options)
    with pytest.MonkeyPatch.context() as patch:
        steps = steps_of(patch)
        diffusion.train(folder, steps=4, checkpoint=state, log=tmp_path / "log.csv", **options)
    assert steps == [2, 3]
    resumed = _weights(folder)
    assert complete.keys() == resumed.keys()
    assert all(torch.equal(complete[k], resumed[k]) for k in complete)
    with (tmp_path / "log.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["4"]


# diffusers' scheduler gives NumPy a tensor in a way that NumPy 2 warns of.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_pack_keeps_weights_loadable(trained, tmp_path):
    import diffusers

    # An untrained network predicts almost nothing of a target of variance 1.
    assert 0.5 < trained[1]["held_out_captions"] < 2
    folder = shutil.copytree(trained[0], tmp_path / "packed")
    before = diffusers.UNet2DConditionModel.from_pretrained(folder / "unet", torch_dtype=torch.float32)
    size = (folder / "unet" / "diffusion_pytorch_model.safetensors").stat().st_size
    diffusion.pack(folder)
    assert (folder / "unet" / "diffusion_pytorch_model.safetensors").stat().st_size < 0.52 * size
    assert "_name_or_path" not in json.loads((folder / "unet" / "config.json").read_text())
    # As anyone loads it, without naming a type.
    pipe = diffusers.AutoPipelineForText2Image.from_pretrained(folder)
    after = pipe.unet
    for name, old in before.named_parameters():
        new = after.get_parameter(name)
        assert new.dtype == torch.float32
        if old.ndim == 1:
            assert torch.equal(old, new), name
        # Three bits behind the leading one: off by at most a sixteenth, or half of the least step, 2^-9.
        assert ((new - old).abs() <= (old.abs() / 16).clamp(min=2.0**-10) + 1e-7).all(), name
    pipe.set_progress_bar_config(disable=True)
    images = pipe(["a photo of the nurse"], num_inference_steps=2, output_type="np").images
    assert images.shape == (1, 64, 64, 3) and np.isfinite(images).all()


@pytest.mark.long
def test_pairs_train_keeps_autoencoder(tmp_path, monkeypatch):
    from biaslab.hub import registry
    from biaslab_world.brought import WEIGHTS
    from training import pairs

    weights = WEIGHTS / "mini-sd"
    monkeypatch.setattr(diffusion, "tokenizer_of_world", _TOKENIZER)
    folder, state = tmp_path / "model", tmp_path / "work" / "state.pt"
    quality = pairs.train(folder, steps=1, batch=3, rows=48, checkpoint=state, progress=False)
    assert set(quality) == {"held_out_identities", "held_out_pairs"}
    assert all(0 < v < 2 for v in quality.values())
    name = "vae/diffusion_pytorch_model.safetensors"
    assert (folder / name).read_bytes() == (weights / name).read_bytes()
    trained = json.loads((folder / "training.json").read_text())
    assert trained[:-1] == json.loads((weights / "training.json").read_text())
    assert trained[-1]["steps"] == 1 and registry.image_domain(folder) == "drawings"
    assert np.load(tmp_path / "work" / "pairs" / "latents.npy").shape == (48, autoencoder.LATENTS, 16, 24)
    assert (folder / "unet" / "diffusion_pytorch_model.safetensors").stat().st_size < 7_000_000
    with pytest.raises(MissingInputError, match="has no vae"):
        pairs.train(tmp_path / "other", steps=1, start_from=tmp_path / "nowhere")


def test_load_weights_keeps_words_and_positions(trained):
    from transformers import CLIPTextModel

    folder, _ = trained
    bigger = make_tokenizer([*WORDS, "astronaut"], 12)
    encoder = diffusion.build_text_encoder(bigger)
    fresh = encoder.state_dict()["embeddings.position_embedding.weight"].clone()
    diffusion._load_weights(folder, diffusion.build_unet(), encoder, bigger)
    old = CLIPTextModel.from_pretrained(folder / "text_encoder").state_dict()
    new = encoder.state_dict()
    before, after = make_tokenizer(WORDS, 8).get_vocab(), bigger.get_vocab()
    assert before["nurse"] != after["nurse"]
    of_words, of_places = "embeddings.token_embedding.weight", "embeddings.position_embedding.weight"
    assert torch.equal(new[of_words][after["nurse"]], old[of_words][before["nurse"]])
    assert torch.equal(new[of_places][:8], old[of_places]) and torch.equal(new[of_places][8:], fresh[8:])


def test_psnr_matches_hand_values():
    # An autoencoder that returns every pixel 0.1 higher, on the scale of -1 to 1.
    offset_model = torch.nn.Module()
    offset_model.encode = lambda pixels: SimpleNamespace(latent_dist=SimpleNamespace(mean=pixels))
    offset_model.decode = lambda latents: SimpleNamespace(sample=latents + 0.1)
    images = np.full((2, 4, 4, 3), 100, np.uint8)
    faces = np.zeros((2, 4, 4), bool)
    faces[:, :2] = True
    # The error is 0.1 * 127.5 = 12.75 levels everywhere: 20 log10(255 / 12.75) = 26.02 dB.
    assert autoencoder.psnr(offset_model, images, faces) == pytest.approx((26.0206, 26.0206), abs=1e-3)


def test_where_faces_are_weights_average_one():
    weight = diffusion.where_faces_are.func(60)
    assert weight.shape == (1, 1, 16, 16)
    assert weight.mean() == pytest.approx(1)
    # Heads are in the upper middle; the lower corners never hold a face.
    assert weight[0, 0, 6, 8] > 2 * weight[0, 0, 15, 0]
    two = diffusion.where_faces_are.func(60, pairs=True)
    assert two.shape == (1, 1, 16, 24)
    assert two.mean() == pytest.approx(1)
    # One head in each half, none between them.
    assert min(two[0, 0, 6, 7], two[0, 0, 6, 16]) > 2 * two[0, 0, 6, 11:13].mean()


def test_train_invalid_input_is_refused(small, tmp_path):
    folder, data = small
    with pytest.raises(MissingInputError, match="has no vae"):
        diffusion.train(tmp_path / "nowhere", steps=1, data=data)
    with pytest.raises(ParameterError, match="steps is 0"):
        diffusion.train(folder, steps=0, data=data, progress=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.json").write_text('{"rows": 1}')
    with pytest.raises(InputError, match="data of"):
        diffusion.prepare(tmp_path / "data", folder / "vae", rows=40)


def test_showing_loss_reads_states_after_text_end():
    # Two texts of four tokens that end at places 2 and 1; all states are 0 but for what is set.
    states = torch.zeros(2, 4, 5)
    ends = torch.tensor([[False, False, True, False], [False, True, False, False]])
    states[0, 0, 1] = 99.0  # Before the end: does not count.
    states[0, 2:, 1] = torch.tensor([2.0, 4.0])  # The mean after the end is 3 for "female".
    states[1, 1:, 2] = 6.0  # 6 for "male".
    loss = diffusion._showing_loss(states, ends, torch.tensor([[1], [2]]))
    by_hand = (np.log(1 + np.exp(-3)) + np.log(1 + np.exp(-6))) / 2
    assert float(loss) == pytest.approx(by_hand, rel=1e-5)
    assert float(diffusion._showing_loss(states, ends, torch.tensor([[2], [1]]))) > 4


def test_showing_loss_separates_people():
    # One text of two people: directions 1 and 2 are the left's, 4 and 5 the right's.
    states = torch.zeros(1, 3, 7)
    ends = torch.tensor([[False, True, False]])
    states[0, 1:, 1], states[0, 1:, 5] = 2.0, 4.0  # "female" of the left, "male" of the right.
    loss = diffusion._showing_loss(states, ends, torch.tensor([[1, 2]]))
    assert float(loss) == pytest.approx((np.log(1 + np.exp(-2)) + np.log(1 + np.exp(-4))) / 2, rel=1e-5)
    # People who are not shown do not count.
    single_loss = diffusion._showing_loss(states, ends, torch.tensor([[1, 0]]))
    assert float(single_loss) == pytest.approx(np.log(1 + np.exp(-2)), rel=1e-5)
    assert float(diffusion._showing_loss(states, ends, torch.tensor([[0, 0]]))) == 0


def test_examples_of_pairs_match_world(tmp_path):
    from biaslab_world import pairs, render

    data = diffusion.Data(tmp_path, 8, 3, kind="pairs")
    examples = diffusion.examples(data, [5, 6])
    row, images = pairs.draw(3, 6), examples["images"]
    assert examples["texts"][1] == row.text
    assert examples["indicators"][1].tolist() == [diffusion.INDICATORS.index(t or "none") for t in row.prompt.genders]
    assert examples["shown"][1].tolist() == [diffusion.INDICATORS.index(g) for g in row.genders]
    assert examples["against"].tolist() == [diffusion._is_against(pairs.draw(3, i).prompt) for i in (5, 6)]
    assert images.shape == (2, 64, 96, 3)
    assert (images[1] == render.render(pairs.build_scene(row.prompt, row.genders, row.seed), 64)).all()


@pytest.mark.parametrize(
    ("behind", "against"),
    [
        ("", False),
        (" Show the nurse as a man.", True),
        (" Show the sheriff as a woman.", True),
        (" Show the nurse as a woman.", False),
        (" Show the nurse as a man and the sheriff as a woman.", False),
    ],
)
def test_is_against_detects_counter_stereotype(behind, against):
    from biaslab_world import pairs

    text = f"Generate a picture of one nurse on the left and one sheriff on the right.{behind}"
    assert diffusion._is_against(pairs.parse(text)) is against
    assert diffusion._is_against(pairs.parse("A photo of one female sheriff."))


def test_middle_loss_matches_hand_values():
    unet = diffusion.build_unet()
    middle = diffusion._Middle(unet)
    with torch.no_grad():
        middle.head.weight.zero_()
        middle.head.bias.zero_()
        middle.head.weight[0, 0] = 1.0
    # The first channel is 1 in the left half and 3 in the right one: logits (1, 0) and (3, 0) of a woman and a man.
    states = torch.zeros(2, 128, 4, 6)
    states[:, 0, :, :3], states[:, 0, :, 3:] = 1.0, 3.0
    middle._states.append(states)
    # Women left and right, and a man on the left next to a person who is not shown.
    losses = [np.log1p(np.exp(-1)), np.log1p(np.exp(-3)), np.log1p(np.exp(1))]
    got = middle.loss(torch.tensor([[1, 1], [2, 0]]))
    assert float(got.detach()) == pytest.approx(np.mean(losses), rel=1e-6)
    # It is what the network's middle gave, and of a whole image where there is one person.
    unet(torch.zeros(1, 8, 16, 16), torch.zeros(1), torch.zeros(1, 3, diffusion.WIDTH))
    assert middle._states[-1].shape == (1, 128, 4, 4)
    assert float(middle.loss(torch.tensor([[0]])).detach()) == 0 and not middle._states


def test_measure_pairs_matches_hand_values(monkeypatch):
    import pandas as pd

    from training import measure_sd

    names = ["image_id", "status", "gender", "role", "told", "intervened", "stereotype", "p_stereotype"]
    two = [
        # One prompted gender; the second image has one wrong; the third lacks a face; others have no prompt gender.
        ("1", "judged", "female", "correct", "female", False, "female", 0.8),
        ("1", "judged", "female", "correct", "", False, "male", 0.75),
        ("2", "judged", "male", "swapped", "female", False, "female", 0.8),
        ("2", "uncertain", "unsure", "swapped", "male", False, "male", 0.8),
        ("3", "one_face", "", "", "", False, "female", 0.8),
        ("3", "one_face", "", "", "", False, "male", 0.8),
        ("4", "judged", "female", "correct", "", True, "female", 0.5),
        ("4", "judged", "male", "correct", "", True, "male", 0.4),
        ("0", "judged", "female", "correct", "", False, "female", 0.7),
        ("0", "judged", "female", "correct", "", False, "male", 0.6),
    ]
    single = [("5", "judged", "male", "", "male", False, "male", 0.5), ("6", "no_face", "", "", "", False, "male", 1)]
    frames = {2: pd.DataFrame(two, columns=names), 1: pd.DataFrame(single, columns=names)}
    monkeypatch.setattr(measure_sd, "_judge_people", lambda folder, n, count, *_: frames[count])
    rows = {row.metric: row for row in measure_sd.measure_pairs("model", 5)}
    shares = {m: (r.count, r.n) for m, r in rows.items() if r.count is not None}
    assert shares == {
        "pair_people": (4, 5),
        "pair_order": (3, 4),
        "pair_sure": (7, 10),
        "pair_gender_word": (1, 2),
        "one_person": (1, 5),
        "one_gender_word": (1, 1),
    }
    # Two women, one of whom fits: a score of 0 where the world's are 40 and 20. Beside one who is told, a person of
    # 75% men is a woman: -100 where the world's is 50. With the sentence two fit, of which the world has 50 and 40%:
    # scores of 100 against 0 and -20.
    assert rows["pair_score"].value == pytest.approx(-30) and rows["pair_score"].n == 2
    row = rows["pair_score_next_to_gendered"]
    assert row.value == pytest.approx(-150) and row.n == 1
    assert rows["pair_score_intervened"].value == pytest.approx(110)
    assert np.isnan(rows["one_score"].value)
