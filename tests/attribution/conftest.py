"""Reference attention, recorded where a pipeline computes it, by head and step."""

import contextlib
from collections import defaultdict

import pytest


@pytest.fixture(scope="module", autouse=True)
def diffusers(one_thread):
    return pytest.importorskip("diffusers", reason="attention needs the extra 'models'")


@pytest.fixture
def recorded_unet(monkeypatch):
    """Return a function that lets a U-Net record its cross-attention, ``(rows, heads, places, columns)``, by layer."""

    def record(unet) -> dict:
        from diffusers.models.attention_processor import AttnProcessor

        unet.set_attn_processor(AttnProcessor())
        recorded = defaultdict(list)
        for name, module in unet.named_modules():
            if name.endswith(".attn2"):

                def scores(*given, name=name, module=module, plain=module.get_attention_scores):
                    probabilities = plain(*given)
                    recorded[name].append(probabilities.unflatten(0, (-1, module.heads)))
                    return probabilities

                monkeypatch.setattr(module, "get_attention_scores", scores)
        return recorded

    return record


@pytest.fixture
def recorded_joint(monkeypatch):
    """Return attention of text and image together, ``(rows, heads, places, places)`` a call, in the order of calls."""
    import torch

    recorded, plain = [], torch.nn.functional.scaled_dot_product_attention

    def attend(query, key, value, *given, **options):
        recorded.append((query @ key.transpose(2, 3) / query.shape[-1] ** 0.5).softmax(-1))
        return plain(query, key, value, *given, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
    return recorded


@pytest.fixture
def watching():
    """Return a ``watch`` for a generator that captures each batch, and the list that it fills."""
    from biaslab.attribution.attention import capture, columns

    def watch(generator, texts, words, **options):
        recorded = []

        @contextlib.contextmanager
        def watch_batch(rows):
            word_columns = columns(generator.pipe, [texts[i] for i in rows], [words[i] for i in rows])
            with capture(generator.pipe, word_columns, **options) as attention:
                yield
            recorded.append(attention)

        return watch_batch, recorded

    return watch
