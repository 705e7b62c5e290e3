"""Perceived gender of each person by visual question answering: BLIP or BLIP-2, asked about the whole image.

The questions are the paper's; the answer is free text, and words in it decide (:func:`read_answer`). The paper finds
that such a judge agrees with people on images of one person and hardly at all on images of two (Table 9): it is
here so that this can be measured, not as the judge of choice.

Source: paired paper, appendix D, Table 8; BLIP-2's form of a question is that of its authors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab import models as named
from biaslab.errors import ParameterError
from biaslab.judging import judge, loaded, people
from biaslab.judging.images import ImageSource
from biaslab.judging.names import VQA

if TYPE_CHECKING:
    from biaslab.store import Store

QUESTION = "What gender is the {phrase}{where} in the picture?"
WHERE = {
    1: ("",),
    2: (" on the left", " on the right"),
    3: (" on the left", " in the middle", " on the right"),
}
"""Number of people asked for -> how each is told apart, left to right."""
COLUMNS = (*people.COLUMNS, "answer")
_ANSWERED = ("image_id", "outcome", "reason", "answer", "image_width", "image_height")

# Words that say a gender, beside those of the lexicons: the paper's annotators choose between the first.
_MORE = {"female": ("feminine", "gal", "gals"), "male": ("masculine", "guy", "guys")}
_DENIALS = frozenset(
    {"not", "no", "nor", "neither", "never", "cannot", "without", "isn't", "doesn't", "can't"}
)
# Greedy, so that an answer depends on nothing but image and question, whatever the checkpoint suggests.
_GREEDY = {"max_new_tokens": 20, "do_sample": False, "num_beams": 1}
_SHARD_ROWS = 1024
_SMALL = 20_000_000  # parameters
_AT_A_TIME = 64  # images read and encoded at once


class Answers(Protocol):
    """The contract of models that answer questions about images."""

    def ask(self, images: Sequence[np.ndarray], of: Sequence[int], questions: Sequence[str]) -> list[str]:
        """Return the answer to each question; ``of`` is the index of the image that it is about."""
        ...


# -- questions and answers ---------------------------------------------------------------------------------


def question(phrase: str, position: int, people: int) -> str:
    """Return the question about one person, such as a ``nurse``, of up to three; position 1 is the leftmost."""
    return QUESTION.format(phrase=phrase, where=WHERE[people][position - 1])


def read_answer(text: str) -> tuple[str, str]:
    """Return ``female``, ``male`` or ``unsure`` for an answer, and why it is unsure.

    Words decide, whole and in any case: those of the lexicons ``gender_words`` and ``gender_pronouns``, "feminine",
    "masculine" and a few more. An answer with words of one gender is that gender. With words of both, of neither,
    or with a word that denies ("not a man") it is ``unsure``: nothing is guessed.
    """
    words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text.casefold().replace("’", "'"))
    # "the woman's", "he's": what stands before the apostrophe; "isn't" stays whole.
    words = [w.removesuffix("'s") for w in words]
    said = {gender for gender, known in _gender_words().items() if not known.isdisjoint(words)}
    if not said:
        return "unsure", "answer says no gender"
    if len(said) == 2:
        return "unsure", "answer says both genders"
    if not _DENIALS.isdisjoint(words):
        return "unsure", "answer denies"
    return said.pop(), ""


@lru_cache(maxsize=1)
def _gender_words() -> dict[str, frozenset[str]]:
    lists = [lexicons.load("gender_words"), lexicons.load("gender_pronouns"), _MORE]
    return {gender: frozenset(w.casefold() for some in lists for w in some[gender]) for gender in _MORE}


# -- the judge ---------------------------------------------------------------------------------------------


def judge_people_vqa(
    images: ImageSource,
    asked: pd.DataFrame,
    name: str,
    *,
    store: Store,
    device: str = "auto",
    batch_size: int = 0,
    progress: bool = True,
    models: Callable[..., Answers] | None = None,
) -> pd.DataFrame:
    """Judge the people of images by asking about each; what was asked before is read again from ``store``.

    Args:
        images: Where the images come from.
        asked: Whom the prompts ask for: image_id, position (1 is the leftmost), phrase; one row per person, up to
            three to an image.
        name: ``vqa:`` and a hub name or folder of a BLIP model for questions or of a BLIP-2 model.
        batch_size: Images, and questions, at a time; 0 finds it.
        models: What loads the model (:func:`load`); it is called when somebody must be asked about, not before.

    Returns:
        One row per row of ``asked``, in its order, with the columns of people's judges (:data:`COLUMNS`): outcome
        is ``judged``, ``uncertain`` (``reason`` says what the answer lacks), ``unreadable`` or ``blocked``; answer
        is the model's own text. No face is looked for and no probability is given: the columns about both are NaN,
        and ``role`` is empty.

    Raises:
        InputError: A column is missing, an image is not in the source's table, or positions are not 1 to 3.
        ParameterError: The model is unknown or cannot be used.
    """
    located(name)
    told = people.check_asked(asked, most=max(WHERE))
    if not told:
        return judge.frame([], COLUMNS)
    ids = asked["image_id"].astype(str).astype(object)
    rows = list(zip(ids, asked["position"].astype(int), strict=True))
    units = pd.DataFrame({"image_id": ids.to_numpy(object)})
    units["question"] = [question(told[i][at - 1], at, len(told[i])) for i, at in rows]
    place = {"device": device, "batch_size": batch_size, "progress": progress, "models": models}
    seen = ask_about(images, units, name, store=store, unit="people", **place)
    said = pd.DataFrame([read_answer(text) for text in seen["answer"]], columns=["gender", "why"])
    asked_about = seen["outcome"] == ""
    outcome = np.where(said["gender"] == "unsure", "uncertain", judge.JUDGED)
    seen = seen.assign(
        position=[at for _, at in rows],
        outcome=seen["outcome"].where(~asked_about, outcome),
        gender=said["gender"].where(asked_about, ""),
        reason=said["why"].where(asked_about, seen["reason"]),
        role="",
    )
    return judge.frame(seen, COLUMNS)


def ask_about(
    images: ImageSource,
    units: pd.DataFrame,
    name: str,
    *,
    store: Store,
    device: str = "auto",
    batch_size: int = 0,
    progress: bool = True,
    unit: str = "questions",
    models: Callable[..., Answers] | None = None,
) -> pd.DataFrame:
    """Put questions to images; what was asked before is read again from ``store``.

    An image is encoded once for all the questions about it that lie together.

    Args:
        images: Where the images come from.
        units: image_id and question, in an order that keeps an image's questions together.
        name: As for :func:`judge_people_vqa`.
        unit: What progress counts.

    Returns:
        One row per row of ``units``, in its order: image_id, outcome (empty where asked, ``unreadable`` or
        ``blocked``), reason, answer (the model's own text, on one line), image_width and image_height in pixels.

    Raises:
        ParameterError: The model is unknown or cannot be used.
    """
    inputs = {"images": images.digest, "weights": named.digest(located(name))}
    ready = cache(lambda: (models or load)(name, device=device, batch_size=batch_size))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        return _ask_shard(shard, images, ready)

    seen = store.stage("answers", inputs, work).compute(
        units.reset_index(drop=True),
        shard_rows=_SHARD_ROWS,
        label=f"asking about {images.name}",
        unit=unit,
        progress=progress,
    )
    return judge.frame(seen, _ANSWERED)


def read_yes_no(text: str) -> tuple[str, str]:
    """Return ``yes`` or ``no`` for an answer, whole words in any case, or an empty text and why it is neither."""
    said = {"yes", "no"}.intersection(re.findall(r"[^\W\d_]+", text.casefold()))
    if len(said) == 1:
        return said.pop(), ""
    return "", "answer says both yes and no" if said else "answer says neither yes nor no"


def _ask_shard(shard: pd.DataFrame, images: ImageSource, ready: Callable[[], Answers]) -> pd.DataFrame:
    of, ids = pd.factorize(shard["image_id"])
    rows: list[dict] = [{}] * len(shard)
    for start in range(0, len(ids), _AT_A_TIME):
        some = list(ids[start : start + _AT_A_TIME])
        read = images.read(some)
        whole = [judge.opened(image_id, image) for image_id, image in zip(some, read, strict=True)]
        here = np.flatnonzero((of >= start) & (of < start + len(some)))
        for k in here:
            rows[k] = {**whole[of[k] - start], "answer": ""}
        asking = [k for k in here if not rows[k]["outcome"]]
        if asking:
            there = list(dict.fromkeys(of[asking] - start))
            index = [there.index(of[k] - start) for k in asking]
            found = ready().ask([read[k] for k in there], index, list(shard["question"].iloc[asking]))
            for k, answer in zip(asking, found, strict=True):
                rows[k]["answer"] = _line(answer)
    return judge.frame(rows, _ANSWERED)


def _line(text: str) -> str:
    """Return a model's text on one line, as tables and pages can show it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


# -- the models --------------------------------------------------------------------------------------------


def located(name: str) -> str:
    """Return the folder or hub name behind ``name``, with or without ``vqa:``.

    Raises:
        ParameterError: It is neither, or the folder brings code or holds no safetensors.
    """
    return named.resolve(name.removeprefix(VQA), "vqa")


def load(name: str, *, device: str = "auto", batch_size: int = 0) -> Answers:
    """Return the model ``name``; arguments as in :func:`judge_people_vqa`.

    Raises:
        ParameterError: The name is unknown, the model is neither BLIP for questions nor BLIP-2, or its weights are
            not safetensors.
    """
    from transformers import AutoConfig

    where = located(name)
    with loaded.loading(name, "a BLIP or BLIP-2 model"):
        where = str(named.local(where))
        kind = AutoConfig.from_pretrained(where, trust_remote_code=False).model_type
    if kind not in _KINDS:
        raise ParameterError(
            f"{name} is a model of the kind {kind!r}; questions are put to {' or '.join(map(repr, _KINDS))}, such as "
            f"{VQA}{named.HUB['vqa'][0]}."
        )
    return _KINDS[kind](name, where, loaded.device(device), batch_size)


class _Vqa:
    """What both kinds share: images are seen once, then asked about in batches of questions of one length.

    Questions are never padded: BLIP's decoder looks at padding, so that an answer would depend on its neighbours.
    """

    def __init__(self, name: str, where: str, device, batch_size: int) -> None:
        import torch
        import transformers

        self._device = device
        # bfloat16 has float32's range; float16 overflows in the language models of BLIP-2.
        self._dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
        with loaded.loading(name, f"a {self._class} model"), named.without_bars():
            self._model, info = getattr(transformers, self._class).from_pretrained(
                where, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
            self._processor = transformers.AutoProcessor.from_pretrained(where, trust_remote_code=False)
        # A captioning BLIP loads without an error, with weights drawn at random where it has none.
        missing = sorted(info["missing_keys"])
        if missing:
            raise ParameterError(
                f"{name} lacks {len(missing)} weights of a {self._class} model, such as {missing[0]}; it was trained "
                f"for something else. Choose one for questions, such as {VQA}{named.HUB['vqa'][0]}."
            )
        self._model.eval().to(device, self._dtype)
        # On a CPU large batches help small models only.
        small = self._model.num_parameters() < _SMALL
        self._batches = loaded.Batches(
            device, batch_size or (8 if device.type == "cpu" and not small else 64)
        )

    def ask(self, images: Sequence[np.ndarray], of: Sequence[int], questions: Sequence[str]) -> list[str]:
        """Return the answer to each question; ``of`` is the index of the image that it is about."""
        seen = self._batches.run(images, self._look)
        tokens = [self._processor.tokenizer(self._prompt.format(q))["input_ids"] for q in questions]
        # Each row is the image's index and the question's tokens; rows of one length go together.
        rows = [np.array([k, *t]) for k, t in zip(of, tokens, strict=True)]
        return self._batches.run(rows, lambda some: self._some(seen, np.stack(some)))

    def _look(self, images: Sequence[np.ndarray]):
        import torch

        # torch warns of memory that it may not write to, such as that of decoded files.
        writable = [np.require(image, requirements="W") for image in images]
        pixels = self._processor.image_processor(
            writable, return_tensors="pt", input_data_format="channels_last"
        )["pixel_values"]
        with torch.inference_mode():
            return self._see(pixels.to(self._device, self._dtype))

    def _some(self, seen: list, rows: np.ndarray) -> list[str]:
        import torch

        tokens = torch.from_numpy(rows[:, 1:]).to(self._device)
        with torch.inference_mode():
            said = self._answer(torch.stack([seen[k] for k in rows[:, 0]]), tokens)
        return self._processor.tokenizer.batch_decode(said, skip_special_tokens=True)


class _Blip(_Vqa):
    _class = "BlipForQuestionAnswering"
    _prompt = "{}"

    def _see(self, pixels):
        return self._model.vision_model(pixel_values=pixels).last_hidden_state

    def _answer(self, seen, tokens):
        import torch

        model, text = self._model, self._model.config.text_config
        asked = model.text_encoder(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device),
        ).last_hidden_state
        start = torch.full((len(tokens), 1), text.bos_token_id, device=tokens.device)
        return model.text_decoder.generate(
            input_ids=start,
            encoder_hidden_states=asked,
            encoder_attention_mask=torch.ones_like(tokens),
            eos_token_id=text.sep_token_id,
            pad_token_id=text.pad_token_id,
            **_GREEDY,
        )[:, 1:]


class _Blip2(_Vqa):
    _class = "Blip2ForConditionalGeneration"
    _prompt = "Question: {} Answer:"

    def _see(self, pixels):
        model = self._model
        seen = model.vision_model(pixel_values=pixels).last_hidden_state
        queries = model.query_tokens.expand(len(seen), -1, -1).to(seen.dtype)
        looked = model.qformer(query_embeds=queries, encoder_hidden_states=seen).last_hidden_state
        return model.language_projection(looked)

    def _answer(self, seen, tokens):
        import torch

        language = self._model.language_model
        # What was seen stands before the question, as the model was trained.
        words = language.get_input_embeddings()(tokens)
        given = torch.cat([seen.to(words.dtype), words], dim=1)
        mask = torch.ones(given.shape[:2], dtype=torch.long, device=given.device)
        pad = self._processor.tokenizer.pad_token_id
        return language.generate(inputs_embeds=given, attention_mask=mask, pad_token_id=pad, **_GREEDY)


# model_type of a checkpoint -> what asks it.
_KINDS = {"blip": _Blip, "blip-2": _Blip2}
