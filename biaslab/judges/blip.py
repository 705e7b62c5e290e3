"""BLIP and BLIP-2 by name: models that answer questions about images, or describe them in a sentence.

The paired paper finds that such a gender judge agrees with annotators on images of one person and hardly at all on
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
# The purpose of each kind of model.
_FOR = {"vqa": "questions", "captioner": "captions", "retriever": "retrieval"}


def load(name: str, kind: str = "vqa", *, device: str = "auto") -> Model:
    """Return the model ``name``, a hub name or folder.

    ``kind`` is ``vqa``, ``captioner`` or ``retriever``. As a captioner, BLIP takes no question, and BLIP-2 continues
    the question as a sentence; only BLIP-2 can be a retriever. Raises ParameterError if the model is unknown, neither
    BLIP of this kind nor BLIP-2, or has no safetensors.
    """
    where, type_ = model_loading.fetch_transformers(name, kind, "a BLIP or BLIP-2 model")
    check_config(model_files.read_folder(where, name, kind))
    return _KINDS[kind][type_](name, where, kind, device)


def check_config(files: ModelFiles) -> None:
    """Refuse a model that is neither BLIP of its ``kind`` nor BLIP-2, by its configuration (ParameterError)."""
    kind = files.kind
    classes = {type_: model_class.class_name for type_, model_class in _KINDS[kind].items()}
    model_files.check_type(files, classes, f"BLIP or BLIP-2 for {_FOR[kind]}", hub.HUB[kind][0])


class Model(model_loading.TransformersModel):
    """The base class: images are encoded once, and questions go in batches of one length, because BLIP's decoder would
    attend to padding.
    """

    class_name: str
    """Its class in transformers."""
    _prompt = "{}"
    _max_tokens = 20  # tokens of an answer
    # A BLIP for questions that is loaded as one for captions loses some weights without an error.
    _use_all = False
    # bfloat16 has float32's range; float16 overflows in the language models of BLIP-2.
    _gpu_dtype = "bfloat16"

    def __init__(self, name: str, where: str, kind: str, device: str) -> None:
        import torch

        options = {"use_all": self._use_all, "fix": f" Choose one for {_FOR[kind]}, such as {hub.HUB[kind][0]}."}
        super().__init__(self.class_name, name, where, f"a {self.class_name} model", device, **options)
        on_cpu = self.device.type == "cpu"
        self.model = self.model.to(torch.float32 if on_cpu else getattr(torch, self._gpu_dtype))
        # On a CPU large batches help small models only.
        small = self.model.num_parameters() < _SMALL
        self._batches = model_loading.Batches(self.device, 8 if on_cpu and not small else 64)

    def ask(self, images: Sequence[np.ndarray], image_indices: Sequence[int], questions: Sequence[str]) -> list[str]:
        """Return the answer to each question; ``image_indices`` are the indices of their images. Raises InputError if
        a number is not finite.
        """
        image_features = self._batches.run(images, self._encode_images)
        tokens = [self.processor.tokenizer(self._prompt.format(q))["input_ids"] for q in questions]
        # Each row is the image's index and the question's tokens; rows of one length go together.
        rows = [np.array([k, *question_tokens]) for k, question_tokens in zip(image_indices, tokens, strict=True)]
        return self._batches.run(rows, lambda batch: self._answer_batch(image_features, np.stack(batch)))

    def _encode_images(self, images: Sequence[np.ndarray]):
        options = {"return_tensors": "pt", "input_data_format": "channels_last"}
        pixels = self.processor.image_processor(model_loading.writable(images), **options)["pixel_values"]
        return self.checked(self._encode_pixels(pixels.to(self.device, self.model.dtype)))

    def _answer_batch(self, image_features: list, rows: np.ndarray) -> list[str]:
        import torch

        tokens = torch.from_numpy(rows[:, 1:]).to(self.device)
        replies = self._answer(torch.stack([image_features[k] for k in rows[:, 0]]), tokens)
        return self.processor.tokenizer.batch_decode(replies, skip_special_tokens=True)


class _Blip(Model):
    def _encode_pixels(self, pixels):
        return self.model.vision_model(pixel_values=pixels).last_hidden_state

    def _generate(self, features, n: int, **options):
        """Return the tokens of ``n`` texts that attend to ``features``, at most as long as the decoder's positions."""
        import torch

        text = self.model.config.text_config
        return self.model.text_decoder.generate(
            input_ids=torch.full((n, 1), text.bos_token_id, device=features.device),
            encoder_hidden_states=features,
            eos_token_id=text.sep_token_id,
            pad_token_id=text.pad_token_id,
            **self.greedy(min(self._max_tokens, text.max_position_embeddings - 1)),
            **options,
        )[:, 1:]


class _Questions(_Blip):
    class_name = "BlipForQuestionAnswering"

    def _answer(self, image_features, tokens):
        import torch

        mask = torch.ones_like(tokens)
        question_features = self.model.text_encoder(
            input_ids=tokens,
            attention_mask=mask,
            encoder_hidden_states=image_features,
            encoder_attention_mask=torch.ones(image_features.shape[:2], dtype=torch.long, device=image_features.device),
        ).last_hidden_state
        return self._generate(question_features, len(tokens), encoder_attention_mask=mask)


class _Captions(_Blip):
    class_name = "BlipForConditionalGeneration"
    _max_tokens = 40
    _use_all = True

    def _answer(self, image_features, tokens):
        # A caption needs no question.
        return self._generate(image_features, len(tokens))


class _Blip2(Model):
    class_name = "Blip2ForConditionalGeneration"
    _prompt = "Question: {} Answer:"

    def _encode_pixels(self, pixels):
        model = self.model
        patches = model.vision_model(pixel_values=pixels).last_hidden_state
        queries = model.query_tokens.expand(len(patches), -1, -1).to(patches.dtype)
        states = model.qformer(query_embeds=queries, encoder_hidden_states=patches).last_hidden_state
        return model.language_projection(states)

    def _answer(self, image_features, tokens):
        import torch

        language = self.model.language_model
        # The image features precede the question, as in training.
        words = language.get_input_embeddings()(tokens)
        embeddings = torch.cat([image_features.to(words.dtype), words], dim=1)
        mask = torch.ones(embeddings.shape[:2], dtype=torch.long, device=embeddings.device)
        pad = self.processor.tokenizer.pad_token_id
        return language.generate(
            inputs_embeds=embeddings, attention_mask=mask, pad_token_id=pad, **self.greedy(self._max_tokens)
        )


class _Blip2Captions(_Blip2):
    _prompt, _max_tokens = "{}", 40


class _Retrieval(Model):
    """BLIP-2 by its contrastive embeddings: one vector for each of an image's queries, and one per text."""

    class_name = "Blip2ForImageTextRetrieval"
    # Images are ranked by small differences of cosines, which bfloat16 rounds to ties.
    _gpu_dtype = "float32"

    def _encode_pixels(self, pixels):
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
        return np.stack([vectors.flatten().cpu().numpy() for vectors in self._batches.run(images, self._encode_images)])

    def text_embeddings(self, texts: Sequence[str]) -> np.ndarray:
        """Return embeddings of length 1, ``float32 (texts, dimensions)``; InputError where a number is not finite."""
        tokenizer, max_tokens = self.processor.tokenizer, self.model.config.qformer_config.max_position_embeddings
        tokens = [np.array(tokenizer(text, truncation=True, max_length=max_tokens)["input_ids"]) for text in texts]
        return np.stack(self._batches.run(tokens, self._encode_text))

    def _encode_text(self, tokens: Sequence[np.ndarray]) -> np.ndarray:
        import torch

        ids = torch.from_numpy(np.stack(tokens)).to(self.device)
        words = self.model.embeddings(input_ids=ids)
        states = self.model.qformer(query_embeds=words, query_length=0).last_hidden_state
        vectors = self.model.text_projection(states[:, 0])
        return self.checked(vectors / vectors.norm(dim=-1, keepdim=True)).cpu().numpy()


# Kind and model_type of a checkpoint -> the class that runs it.
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
        indices = {name: k for k, name in enumerate(distinct)}
        texts = self.model.ask(list(distinct.values()), [indices[id(image)] for image in images], list(questions))
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
