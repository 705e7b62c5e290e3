"""Judges that other packages bring: an example package, installed as a user would, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from array_images import ArrayImages

from biaslab.errors import InputError, ParameterError, UnknownNameError
from biaslab.judging import plugins
from biaslab.judging.judge import JudgeSettings, judge
from biaslab.judging.names import WHOLE, files_digest
from biaslab.store import Store

EXAMPLE = Path(__file__).parent / "example_judge"


@pytest.fixture
def installed(use):
    return use(EXAMPLE)


def grey(level):
    return np.full((8, 8, 3), level, np.uint8)


def judged(name, tmp_path, levels):
    images = ArrayImages([grey(level) for level in levels])
    settings = JudgeSettings(gender=name, faces=WHOLE)
    return judge(images, settings, store=Store(tmp_path / "store"), device="cpu", progress=False)


def test_an_installed_judge_judges(installed, tmp_path):
    found = judged("plugin:brightness", tmp_path, [255, 0, 128])
    # 255 / 255, 0 / 255 and 128 / 255, which is sure of neither.
    assert found["p_female"].tolist() == pytest.approx([1, 0, 128 / 255])
    assert found["gender"].tolist() == ["female", "male", "unsure"]
    # The argument reaches it: a tenth of the brightness.
    assert judged("plugin:brightness:0.1", tmp_path, [255])["gender"].tolist() == ["male"]


def test_answers_that_are_no_probabilities_are_refused(installed, tmp_path):
    with pytest.raises(InputError, match=r"plugin:brightness:2 gives 2; a probability"):
        judged("plugin:brightness:2", tmp_path, [255])
    model = plugins.load("plugin:brightness", device="cpu", batch_size=0)
    model._model.p_female = lambda images: np.zeros(1)
    with pytest.raises(InputError, match=r"shape \(1,\) to 2 images"):
        model.p_female([grey(0), grey(0)])


def test_what_is_kept_depends_on_the_judges_code_and_argument(installed):
    first = files_digest("plugin:brightness", "clip")
    assert files_digest("plugin:brightness", "clip") == first
    assert files_digest("plugin:brightness:0.1", "clip") != first
    module = installed / "example_judge.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace(".mean()", ".max()"), encoding="utf-8")
    assert files_digest("plugin:brightness", "clip") != first
    module.write_text(text, encoding="utf-8")


def test_unknown_and_unfit_judges_are_refused_with_the_reason(installed):
    with pytest.raises(UnknownNameError, match="brightness"):
        plugins.digest("plugin:brightnes")
    with pytest.raises(ParameterError, match=r"no judge.*p_female"):
        plugins.load("plugin:nothing", device="cpu", batch_size=0)
    with pytest.raises(ParameterError, match="could not convert string to float"):
        plugins.load("plugin:brightness:much", device="cpu", batch_size=0)


def test_without_the_package_there_is_no_such_judge():
    with pytest.raises(UnknownNameError, match="brightness"):
        plugins.digest("plugin:brightness")
