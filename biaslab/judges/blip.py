"""BLIP and BLIP-2 by name: models that answer questions about images, or say in a sentence what they show.

The paired paper finds that such a judge of gender agrees with annotators on images of one person and hardly at all on
images of two (Table 9).

Source: paired paper, appendix D, Table 8; BLIP-2's form of a question is that of its authors. Captions: dalleval paper,
section 4.3, which takes VL-T5 fine-tuned on COCO.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from biaslab.hub import model_files
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import model_loading
from biaslab.judges.judge import Answer, HubJudge, People, Reply
from biaslab.judges.judge_labels import JUDGED, UNCERTAIN
from biaslab.judges.questions import line, question, read_answer

_SMALL = 20_000_000  # parameters
# What models of a kind are for.
_FOR = {"vqa": "questions", "captioner": "captions", "retriever": "retrieval"}


def load(name: str, kind: str = "vqa", *, device: str = "auto") -> Model:
    """Return the model ``name``, a hub name or folder.

    ``kind`` is ``vqa``, or ``captioner``: then BLIP takes no question, and that of BLIP-2 begins the sentence; or
    ``retriever``, which BLIP-2 alone can be. Raises ParameterError where it is unknown, neither BLIP of this kind nor
    BLIP-2, or has no safetensors.
    """
    where, type_ = model_loading.of_transformers(name, kind, "a BLIP or BLIP-2 model")
    check_config(model_files.read_folder(where, name, kind))
    return _KINDS[kind][type_](name, where, kind, device)


def check_config(files: ModelFiles) -> None:
    """Refuse a model that is neither BLIP of its ``kind`` nor BLIP-2, by its configuration (ParameterError)."""
    kind = files.kind
    known = {type_: made.of_class for type_, made in _KINDS[kind].items()}
    model_files.check_type(files, known, f"BLIP or BLIP-2 for {_FOR[kind]}", hub.HUB[kind][0])


class Model(model_loading.Ready):
    """What all share: images are seen once, then asked about in batches of questions of one length, as BLIP's decoder
    would look at padding.
    """

    of_class: str
    """Its class in transformers."""
    _prompt = "{}"
    _longest = 20  # tokens of an answer
    # Of a BLIP for questions that is loaded as one for captions, a part is left out without an error.
    _whole = False
    # bfloat16 has float32's range; float16 overflows in the language models of BLIP-2.
    _gpu_dtype = "bfloat16"

    def __init__(self, name: str, where: str, kind: str, device: str) -> None:
        import torch

        options = {"whole": self._whole, "fix": f" Choose one for {_FOR[kind]}, such as {hub.HUB[kind][0]}."}
        super().__init__(self.of_class, name, where, f"a {self.of_class} model", device, **options)
        on_cpu = self.device.type == "cpu"
        self.model = self.model.to(torch.float32 if on_cpu else getattr(torch, self._gpu_dtype))
        # On a CPU large batches help small models only.
        small = self.model.num_parameters() < _SMALL
        self._batches = model_loading.Batches(self.device, 8 if on_cpu and not small else 64)

    def ask(self, images: Sequence[np.ndarray], of: Sequence[int], questions: Sequence[str]) -> list[str]:
        """Return the answer to each question; ``of`` is the index of its image. InputError where a number is not
        finite.
        """
        seen = self._batches.run(images, self._look)
        tokens = [self.processor.tokenizer(self._prompt.format(q))["input_ids"] for q in questions]
        # Each row is the image's index and the question's tokens; rows of one length go together.
        rows = [np.array([k, *t]) for k, t in zip(of, tokens, strict=True)]
        return self._batches.run(rows, lambda some: self._some(seen, np.stack(some)))

    def _look(self, images: Sequence[np.ndarray]):
        given = {"return_tensors": "pt", "input_data_format": "channels_last"}
        pixels = self.processor.image_processor(model_loading.writable(images), **given)["pixel_values"]
        return self.checked(self._see(pixels.to(self.device, self.model.dtype)))

    def _some(self, seen: list, rows: np.ndarray) -> list[str]:
        import torch

        tokens = torch.from_numpy(rows[:, 1:]).to(self.device)
        said = self._answer(torch.stack([seen[k] for k in rows[:, 0]]), tokens)
        return self.processor.tokenizer.batch_decode(said, skip_special_tokens=True)


class _Blip(Model):
    def _see(self, pixels):
        return self.model.vision_model(pixel_values=pixels).last_hidden_state

    def _written(self, seen, n: int, **more):
        """Return the tokens of ``n`` texts by the decoder that looks at ``seen``, no longer than it has places for."""
        import torch

        text = self.model.config.text_config
        return self.model.text_decoder.generate(
            input_ids=torch.full((n, 1), text.bos_token_id, device=seen.device),
            encoder_hidden_states=seen,
            eos_token_id=text.sep_token_id,
            pad_token_id=text.pad_token_id,
            **self.greedy(min(self._longest, text.max_position_embeddings - 1)),
            **more,
        )[:, 1:]


class _Questions(_Blip):
    of_class = "BlipForQuestionAnswering"

    def _answer(self, seen, tokens):
        import torch

        whole = torch.ones_like(tokens)
        asked = self.model.text_encoder(
            input_ids=tokens,
            attention_mask=whole,
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device),
        ).last_hidden_state
        return self._written(asked, len(tokens), encoder_attention_mask=whole)


class _Captions(_Blip):
    of_class = "BlipForConditionalGeneration"
    _longest = 40
    _whole = True

    def _answer(self, seen, tokens):
        # It says what it sees: there is no question.
        return self._written(seen, len(tokens))


class _Blip2(Model):
    of_class = "Blip2ForConditionalGeneration"
    _prompt = "Question: {} Answer:"

    def _see(self, pixels):
        model = self.model
        seen = model.vision_model(pixel_values=pixels).last_hidden_state
        queries = model.query_tokens.expand(len(seen), -1, -1).to(seen.dtype)
        looked = model.qformer(query_embeds=queries, encoder_hidden_states=seen).last_hidden_state
        return model.language_projection(looked)

    def _answer(self, seen, tokens):
        import torch

        language = self.model.language_model
        # What was seen stands before the question, as the model was trained.
        words = language.get_input_embeddings()(tokens)
        given = torch.cat([seen.to(words.dtype), words], dim=1)
        mask = torch.ones(given.shape[:2], dtype=torch.long, device=given.device)
        pad = self.processor.tokenizer.pad_token_id
        return language.generate(
            inputs_embeds=given, attention_mask=mask, pad_token_id=pad, **self.greedy(self._longest)
        )


class _Blip2Captions(_Blip2):
    _prompt, _longest = "{}", 40


class _Retrieval(Model):
    """BLIP-2 by its contrastive embeddings: one vector of each of an image's queries, and one of a text."""

    of_class = "Blip2ForImageTextRetrieval"
    # Images are ranked by small differences of cosines, which bfloat16 rounds to ties.
    _gpu_dtype = "float32"

    def _see(self, pixels):
        model = self.model
        patches = model.vision_model(pixel_values=pixels).last_hidden_state
        queries = model.query_tokens.expand(len(patches), -1, -1)
        states = model.qformer(query_embeds=queries, encoder_hidden_states=patches).last_hidden_state
        vectors = model.vision_projection(states)
        return vectors / vectors.norm(dim=-1, keepdim=True)

    def image_embeddings(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return embeddings, ``float32 (images, queries * dimensions)``: unit vectors one after the other.

        Raises InputError where a number is not finite.
        """
        return np.stack([vectors.flatten().cpu().numpy() for vectors in self._batches.run(images, self._look)])

    def text_embeddings(self, texts: Sequence[str]) -> np.ndarray:
        """Return embeddings of length 1, ``float32 (texts, dimensions)``; InputError where a number is not finite."""
        tokenizer, longest = self.processor.tokenizer, self.model.config.qformer_config.max_position_embeddings
        tokens = [np.array(tokenizer(text, truncation=True, max_length=longest)["input_ids"]) for text in texts]
        return np.stack(self._batches.run(tokens, self._read))

    def _read(self, tokens: Sequence[np.ndarray]) -> np.ndarray:
        import torch

        ids = torch.from_numpy(np.stack(tokens)).to(self.device)
        words = self.model.embeddings(input_ids=ids)
        states = self.model.qformer(query_embeds=words, query_length=0).last_hidden_state
        vectors = self.model.text_projection(states[:, 0])
        return self.checked(vectors / vectors.norm(dim=-1, keepdim=True)).cpu().numpy()


# Kind and model_type of a checkpoint -> what asks it.
_KINDS = {
    "vqa": {"blip": _Questions, "blip-2": _Blip2},
    "captioner": {"blip": _Captions, "blip-2": _Blip2Captions},
    "retriever": {"blip-2": _Retrieval},
}


class VqaJudge(HubJudge):
    """A BLIP model for questions, or BLIP-2: a hub name or a folder, with or without ``vqa:``."""

    prefix, kind, needs_faces = "vqa:", "vqa", False
    check_kind = staticmethod(check_config)
    batch_size = 64

    def load(self) -> Model:
        """Return the model."""
        return load(self.argument, self.kind, device=self.options.device)

    def ask(
        self,
        images: Sequence[np.ndarray],
        questions: Sequence[str],
        answers: object = None,
        image_domain: str = hub.PHOTOGRAPHS,
    ) -> list[Reply]:
        """Return the model's own words for each question and its image, on one line; an image is encoded once.

        ``answers`` and ``image_domain`` have no effect. Raises InputError where a number is not finite.
        """
        distinct = {id(image): image for image in images}
        places = {name: k for k, name in enumerate(distinct)}
        texts = self.model.ask(list(distinct.values()), [places[id(image)] for image in images], list(questions))
        return [Reply(line(text)) for text in texts]

    def answers(self, people: People) -> list[Answer]:
        """Return the perceived gender of each person, read from the answer to the paper's question."""
        questions = [question(person.phrase, person.position, person.people) for person in people.persons]
        replies = self.ask([person.image for person in people.persons], questions)
        answers = []
        for reply in replies:
            gender, reason = read_answer(reply.answer)
            status = UNCERTAIN if gender == "unsure" else JUDGED
            answers.append(Answer(gender=gender, status=status, reason=reason, text=reply.answer))
        return answers


class Captioner(VqaJudge):
    """A BLIP model for captions, or BLIP-2: a hub name or a folder. BLIP takes no question."""

    prefix, kind, description = "", "captioner", ""


class Retriever(HubJudge):
    """BLIP-2 for image-text retrieval: a hub name or a folder. Source: dalleval paper, appendix C.2, Table 14."""

    kind, task, needs_faces = "retriever", "embed", False
    check_kind = staticmethod(check_config)

    @cached_property
    def classifier(self) -> Any:
        """The model, which also embeds texts."""
        return load(self.argument, self.kind, device=self.options.device)

    def embed(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return embeddings, ``float32 (images, queries * dimensions)``; InputError where one is not finite."""
        return self.classifier.image_embeddings(images)
