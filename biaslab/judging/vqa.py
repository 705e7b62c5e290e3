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
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab import models as named
from biaslab.errors import InputError, ParameterError, near_matches
from biaslab.judging import loaded, people
from biaslab.judging.images import BLOCKED, ImageSource, Unreadable, check_image
from biaslab.judging.judge import JUDGED

if TYPE_CHECKING:
    from biaslab.store import Store

VQA = "vqa:"
"""Names of these judges start with it: ``vqa:Salesforce/blip-vqa-base``, ``vqa:FOLDER``."""
QUESTION = "What gender is the {phrase}{where} in the picture?"
WHERE = {
    1: ("",),
    2: (" on the left", " on the right"),
    3: (" on the left", " in the middle", " on the right"),
}
"""Number of people asked for -> how each is told apart, left to right."""
COLUMNS = (*people.COLUMNS, "answer")

_HUB = ("Salesforce/blip-vqa-base", "Salesforce/blip2-opt-2.7b", "Salesforce/blip2-flan-t5-xl")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Words that say a gender, beside those of the lexicons: the paper's annotators choose between the first.
_MORE = {"female": ("feminine", "gal", "gals"), "male": ("masculine", "guy", "guys")}
_DENIALS = frozenset(
    {"not", "no", "nor", "neither", "never", "cannot", "without", "isn't", "doesn't", "can't"}
)
_MOST_TOKENS = 20
_SHARD_ROWS = 256
_READ = 128  # images read at a time
_SEEN = ("outcome", "reason", "answer", "p_female", "image_width", "image_height")


class Answer(NamedTuple):
    """What a model says to one question."""

    text: str
    """Its words."""
    p_female: float
    """How likely "female" is as the whole answer against "male", 0–1; NaN where the model does not tell."""


class Answers(Protocol):
    """The contract of models that answer questions about images."""

    def ask(self, images: Sequence[np.ndarray], of: Sequence[int], questions: Sequence[str]) -> list[Answer]:
        """Return the answer to each question; ``of`` is the index of the image that it is about."""
        ...


# -- questions and answers ---------------------------------------------------------------------------------


def question(phrase: str, position: int, people: int) -> str:
    """Return the question about one person.

    Args:
        phrase: Whom the prompt asks for, such as ``nurse``.
        position: 1 is the leftmost.
        people: How many people the prompt asks for, 1 to 3.
    """
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


def _questions(asked: pd.DataFrame) -> list[str]:
    """Return the question for each row of ``asked``.

    Raises:
        InputError: A column is missing, positions of an image are not 1, 2, …, or there are more than three.
    """
    by_image = people.check_asked(asked, most=max(WHERE))
    rows = zip(asked["image_id"].astype(str), asked["position"].astype(int), strict=True)
    return [question(by_image[i][at - 1], at, len(by_image[i])) for i, at in rows]


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
    """Judge the people of images by asking about each; what was asked before is read again.

    Args:
        images: Where the images come from.
        asked: Whom the prompts ask for: image_id, position (1 is the leftmost), phrase; one row per person, up to
            three to an image.
        name: ``vqa:`` and a hub name or folder of a BLIP model for questions or of a BLIP-2 model.
        store: Where answers are kept.
        device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, …
        batch_size: Images, and questions, at a time; 0 finds it.
        progress: Whether a bar shows how far it is.
        models: What loads the model (:func:`load`); it is called when somebody must be asked about, not before.

    Returns:
        One row per row of ``asked``, in its order, with the columns of people's judges (:data:`COLUMNS`): outcome
        is ``judged``, ``uncertain`` (``reason`` says what the answer lacks), ``unreadable`` or ``blocked``; answer
        is the model's own text; p_female is BLIP's likelihood of the answer "female" against "male" (it does not
        decide), NaN for BLIP-2. No face is looked for: the columns about faces are NaN, and ``role`` is empty.

    Raises:
        InputError: A column is missing, an image is not in the source's table, or positions are not 1 to 3.
        ParameterError: The model is unknown or cannot be used.
    """
    where = located(name)
    said = _questions(asked)
    ids = asked["image_id"].astype(str).astype(object).reset_index(drop=True)
    table = images.table
    unknown = ids[~ids.isin(set(table["image_id"].astype(str)))]
    if len(unknown):
        raise InputError(f"{images.name} has no image {unknown.iloc[0]!r}; its table lists those it has.")
    units = pd.DataFrame({"image_id": ids, "question": pd.Series(said, dtype=object)})
    if "outcome" in table:  # A generated image that was withheld is known without reading it.
        units["blocked"] = ids.isin(set(table.loc[table["outcome"] == BLOCKED, "image_id"].astype(str)))
    if units.empty:
        return _frame(asked, pd.DataFrame(columns=list(_SEEN)))
    ready = cache(lambda: (models or load)(name, device=device, batch_size=batch_size))
    inputs = {"images": images.digest, "weights": named.digest(where)}

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        return _ask_shard(shard, images, ready)

    seen = store.stage("people_vqa", inputs, work).compute(
        units,
        shard_rows=_SHARD_ROWS,
        label=f"asking about {images.name}",
        unit="people",
        progress=progress,
    )
    return _frame(asked, seen)


def _ask_shard(shard: pd.DataFrame, images: ImageSource, ready: Callable[[], Answers]) -> pd.DataFrame:
    blank = {"outcome": "", "reason": "", "answer": "", "p_female": np.nan}
    rows = [{**blank, "image_width": np.nan, "image_height": np.nan} for _ in range(len(shard))]
    blocked = shard["blocked"].to_numpy() if "blocked" in shard else np.zeros(len(shard), bool)
    for k in np.flatnonzero(blocked):
        rows[k]["outcome"] = BLOCKED
    of, ids = pd.factorize(shard["image_id"].where(~blocked))  # -1 where blocked
    for start in range(0, len(ids), _READ):
        read = images.read(list(ids[start : start + _READ]))
        shown = [image for image in read if not isinstance(image, Unreadable)]
        at = np.cumsum([not isinstance(image, Unreadable) for image in read]) - 1
        asking = []
        for k in np.flatnonzero((of >= start) & (of < start + _READ)):
            image = read[of[k] - start]
            if isinstance(image, Unreadable):
                was_blocked = image.reason == BLOCKED
                rows[k]["outcome"] = BLOCKED if was_blocked else "unreadable"
                rows[k]["reason"] = "" if was_blocked else image.reason
                continue
            height, width = check_image(image, f"image {shard['image_id'].iloc[k]!r}").shape[:2]
            rows[k].update(image_width=width, image_height=height)
            asking.append(k)
        if asking:
            found = ready().ask(
                shown, [int(at[of[k] - start]) for k in asking], list(shard["question"].iloc[asking])
            )
            for k, answer in zip(asking, found, strict=True):
                rows[k].update(answer=_line(answer.text), p_female=float(answer.p_female))
    return pd.DataFrame(rows, columns=list(_SEEN))


def _line(text: str) -> str:
    """Return a model's text on one line, as tables and pages can show it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _frame(asked: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """Return judgements: what was answered, read by the rule."""
    read = [read_answer(text) for text in seen["answer"]]
    gender = pd.Series([g for g, _ in read], dtype=object)
    why = pd.Series([w for _, w in read], dtype=object)
    asked_about = (seen["outcome"] == "").reset_index(drop=True)
    outcome = gender.map({"female": JUDGED, "male": JUDGED, "unsure": "uncertain"})
    out = pd.DataFrame(
        {
            "image_id": asked["image_id"].astype(str).to_numpy(),
            "position": asked["position"].astype(int).to_numpy(),
            "outcome": outcome.where(asked_about, seen["outcome"]).astype(str),
            "gender": gender.where(asked_about, "").astype(str),
            "p_female": seen["p_female"].astype(float),
            **dict.fromkeys(("n_faces", "x0", "y0", "x1", "y1", "role_p"), np.nan),
            "image_width": seen["image_width"].astype(float),
            "image_height": seen["image_height"].astype(float),
            "reason": why.where(asked_about, seen["reason"]).astype(str),
            "role": "",
            "answer": seen["answer"].astype(str),
        }
    )
    return out[list(COLUMNS)].astype({"role": str, "role_p": float})


# -- the models --------------------------------------------------------------------------------------------


def located(name: str) -> str:
    """Return the folder or hub name behind ``name``.

    Raises:
        ParameterError: It is neither, or the folder brings code or holds no safetensors.
    """
    short = name.removeprefix(VQA)
    path = Path(short).expanduser()
    if short and path.is_dir():
        named.check_folder(path)
        return str(path)
    if _HUB_NAME.fullmatch(short):
        return short
    near = near_matches(short, _HUB)
    hint = f"Did you mean {VQA + near[0]!r}? " if near else ""
    raise ParameterError(
        f"The judge is {name!r}. {hint}Give {VQA!r} and a folder that exists or a name on the hub, such as "
        f"{VQA + _HUB[0]!r}."
    )


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
            f"{VQA + _HUB[0]!r}."
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
        self._batches = loaded.Batches(device, batch_size or (8 if device.type == "cpu" else 64))
        with loaded.loading(name, f"a {self._class} model"), loaded.without_bars():
            made = getattr(transformers, self._class).from_pretrained(
                where, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
            self._model, info = made
            self._processor = transformers.AutoProcessor.from_pretrained(where, trust_remote_code=False)
        # A captioning BLIP loads without an error, with weights drawn at random where it has none.
        missing = sorted(info["missing_keys"])
        if missing:
            raise ParameterError(
                f"{name} lacks {len(missing)} weights of a {self._class} model, such as {missing[0]}; it was trained "
                f"for something else. Choose one for questions, such as {VQA + _HUB[0]!r}."
            )
        self._tokenizer = self._processor.tokenizer
        self._model.eval().to(device, self._dtype)

    def ask(self, images: Sequence[np.ndarray], of: Sequence[int], questions: Sequence[str]) -> list[Answer]:
        """Return the answer to each question; ``of`` is the index of the image that it is about."""
        seen = self._batches.run(images, self._look)
        tokens = [self._tokenizer(self._prompt.format(q))["input_ids"] for q in questions]
        # Each row is the image's index and the question's tokens; rows of one length go together.
        rows = [np.array([k, *t]) for k, t in zip(of, tokens, strict=True)]
        return self._batches.run(rows, lambda some: self._some(seen, np.stack(some)))

    def _look(self, images: Sequence[np.ndarray]):
        import torch

        # torch warns of memory that it may not write to, such as that of decoded files.
        images = [np.require(image, requirements="W") for image in images]
        found = self._processor.image_processor(
            images, return_tensors="pt", input_data_format="channels_last"
        )
        with torch.inference_mode():
            return self._see(found["pixel_values"].to(self._device, self._dtype))

    def _some(self, seen: list, rows: np.ndarray) -> list[Answer]:
        import torch

        tokens = torch.from_numpy(rows[:, 1:]).to(self._device)
        with torch.inference_mode():
            out, p_female = self._answer(torch.stack([seen[k] for k in rows[:, 0]]), tokens)
        texts = self._tokenizer.batch_decode(out, skip_special_tokens=True)
        return [Answer(t, float(p)) for t, p in zip(texts, p_female, strict=True)]


# Greedy, so that an answer depends on nothing but image and question, whatever the checkpoint suggests.
_GREEDY = {"max_new_tokens": _MOST_TOKENS, "do_sample": False, "num_beams": 1}


class _Blip(_Vqa):
    _class = "BlipForQuestionAnswering"
    _prompt = "{}"

    def _see(self, pixels):
        return self._model.vision_model(pixel_values=pixels).last_hidden_state

    def _answer(self, seen, tokens):
        import torch

        model, text = self._model, self._model.config.text_config
        looked = torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device)
        asked = model.text_encoder(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            encoder_hidden_states=seen,
            encoder_attention_mask=looked,
        ).last_hidden_state
        context = {"encoder_hidden_states": asked, "encoder_attention_mask": torch.ones_like(tokens)}
        start = torch.full((len(tokens), 1), text.bos_token_id, device=tokens.device)
        ends = {"eos_token_id": text.sep_token_id, "pad_token_id": text.pad_token_id}
        out = model.text_decoder.generate(input_ids=start, **context, **ends, **_GREEDY)
        female, male = (self._likelihood(word, start, context) for word in ("female", "male"))
        return out[:, 1:], torch.sigmoid(female - male).cpu().numpy()

    def _likelihood(self, word: str, start, context):
        """Return the log-likelihood of ``word`` as the whole answer, float64 (questions,)."""
        import torch

        tokens = self._tokenizer(word, add_special_tokens=False)["input_ids"]
        if self._tokenizer.unk_token_id in tokens:
            return torch.full((len(start),), torch.nan, dtype=torch.float64, device=start.device)
        tokens = torch.tensor([[*tokens, self._model.config.text_config.sep_token_id]], device=start.device)
        tokens = tokens.expand(len(start), -1)
        given = torch.cat([start, tokens[:, :-1]], dim=1)
        logits = self._model.text_decoder(input_ids=given, **context).logits
        each = logits.double().log_softmax(dim=-1).gather(2, tokens[..., None])
        return each.sum(dim=(1, 2))


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
        pad = {"pad_token_id": self._tokenizer.pad_token_id}
        out = language.generate(inputs_embeds=given, attention_mask=mask, **pad, **_GREEDY)
        return out, np.full(len(tokens), np.nan)


# model_type of a checkpoint -> what asks it.
_KINDS = {"blip": _Blip, "blip-2": _Blip2}
