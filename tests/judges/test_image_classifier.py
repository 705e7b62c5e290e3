"""Image classifiers with labels for female and male as judges."""

import numpy as np
import pytest

from biaslab.errors import ParameterError
from biaslab.judges.judge import JudgeOptions, People
from biaslab.judges.registry import parse

torch = pytest.importorskip("torch", reason="judging needs the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def save_classifier(tmp_path):
    """Return a function that saves a random vision transformer with some labels."""

    def save(*labels):
        from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        names = dict(enumerate(labels))
        config = ViTConfig(**sizes, image_size=16, patch_size=8, id2label=names, num_labels=len(labels))
        ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
        ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "vit")
        return f"classifier:{tmp_path / 'vit'}"

    return save


def test_classifier_probability_is_softmax_of_gender_labels(save_classifier):
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    name = save_classifier("child", "Male Portrait", "woman")
    judge = parse(name, "judging.gender", JudgeOptions(device="cpu"))
    image = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    (answer,) = judge.answers(People.of_image(image))
    # A face that is the whole image is shown with a margin of a quarter of its size, which is black.
    padded = np.zeros((30, 30, 3), np.uint8)
    padded[5:25, 5:25] = image
    folder = judge.argument
    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(**AutoImageProcessor.from_pretrained(folder)(padded, return_tensors="pt")).logits[0]
    assert answer.probability_female == pytest.approx(float(torch.sigmoid(logits[2] - logits[1])), abs=1e-6)
    assert judge.files() and judge.digest() and judge.needs_faces
    judge.probe(image)


@pytest.mark.parametrize("labels", [("cat", "dog"), ("female", "woman", "male"), ("female", "other")])
def test_classifier_files_without_one_label_per_gender_raise(save_classifier, labels):
    with pytest.raises(ParameterError, match=r"needs one label for female and one for male; its labels are \['"):
        parse(save_classifier(*labels), "judging.gender").files()
