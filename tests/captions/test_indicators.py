"""Gender indicators: the paper's examples, names and non-names, and ground truth of the synthetic world."""

import re
import sys
from types import ModuleType, SimpleNamespace

import gcc
import pandas as pd
import pytest

from biaslab.captions import indicators as module_under_test
from biaslab.captions.corpus import open_corpus
from biaslab.captions.indicators import Span, indicators, parse_spans
from biaslab.errors import ParameterError

# Table 5 of the paper (number 5 in both versions): its captions, what decided by the paper, and in brackets all that
# says a gender. A "first name" of the paper is the whole name here.
TABLE_5 = """
female|Portrait of young [woman] programmer working at a computer in the data center filled with display screens
male|Tired young indian programmer almost sleeping at [his] desk after working on difficult project all day long
female|[Female] accountant very busy in office
male|Accountant managing manual bill monitoring tasks in [his] home office
male|Iowa Republican Senator [Chuck Grassley]
female|U.S. Senator [Kirsten Gillibrand] (D-NY) pauses during a news conference on Capitol Hill in Washington
male|Portrait of young [male] mechanic in bicycle store, Beijing
female|African american [woman] mechanic repairing a motorcycle in a workshop
female|Attractive [woman] photographer taking images with dslr camera outdoors in park.
male|Photographer [John G. Zimmerman] with [his] pipe and Hucher camera, 1972."""
KINDS = {"woman": "word", "Female": "word", "male": "word", "his": "pronoun"}


@pytest.mark.parametrize("line", TABLE_5.strip().split("\n"))
def test_indicators_match_table_5(line):
    gender, marked = line.split("|")
    text = re.sub(r"[\[\]]", "", marked)
    row = indicators([text]).iloc[0]
    assert row["indicator"] == gender
    result = [(text[s.start : s.end], s.gender, s.kind) for s in parse_spans(row["spans"])]
    assert result == [(part, gender, KINDS.get(part, "name")) for part in re.findall(r"\[(.*?)\]", marked)]


NO_NAME = """Baker|A Baker in Baker Street|Singer sewing machine|Singer Sewing Machine|Paris|Paris in spring
Paris Fashion Week|The Paris Metro|Virginia Beach|Virginia|West Virginia Mountaineers|Georgia Bulldogs|San Diego Zoo
Santa Monica Pier|St. John Hospital|John F. Kennedy Airport|Martin Luther King Blvd|Charlotte Airport|Lake Victoria
May Day|Rose Garden|Rose Gold Ring|Ruby Ring|Daisy Chain|Ivy League|Grace Period|Mark Your Calendar|Will Power
Summer Dress|Jack Daniels Whiskey|Calvin Klein Jeans|Michael Kors bag|Royal Albert Hall|Christmas Carol
President of the Company|Art Teacher|Chase Bank|Jordan Valley|Young Chef|Chef Baker|Dr. Thomas|Dr. Baker|emma watson
EMMA WATSON|Emma, Watson|the doctor Who|St Patrick's Day|Model T Ford|Sky News Arabia
Des Moines Iowa|Bel Air Road|Norton Shores|Holly Springs|Puerto Madero|Chelsea United|Franklin Parish|Ferris Wheel
Anna Graphic Designer|Emma Teachers Association|Ed Tech|Art Director|Emma Smith Heights""".replace("\n", "|")


@pytest.mark.parametrize("text", NO_NAME.split("|"))
def test_indicators_find_no_false_names(text):
    assert indicators([text]).iloc[0].tolist() == ["none", ""]


@pytest.mark.parametrize(
    ("text", "gender", "part"),
    [
        ("Leana Wen, Planned Parenthood president", "female", "Leana Wen"),
        ("Portrait of President George H. W. Bush", "male", "George H. W. Bush"),
        ("Dr. Maria Lopez, dentist", "female", "Maria Lopez"),
        ("Dr. Maria smiles", "female", "Maria"),
        ("the baker John Baker", "male", "John Baker"),
        ("Grace Kelly in 1955", "female", "Grace Kelly"),
        ("Oscar de la Hoya trains", "male", "Oscar de la Hoya"),
        ("José García, pilot", "male", "José García"),
        ("Mary-Jane Watson", "female", "Mary-Jane Watson"),
        ("Sarah Connor's kitchen", "female", "Sarah Connor"),
        ("we met Anna.\nPeter Novak smiles", "male", "Peter Novak"),
        ("Ed Sheeran sings", "male", "Ed Sheeran"),
        ("Anna Le, cook", "female", "Anna Le"),
        ("Anna della Rossa", "female", "Anna della Rossa"),
        ("the chef Maria prepares a dish", "female", "Maria"),
        ("Saul Bellow. A novel", "male", "Saul Bellow"),
    ],
)
def test_indicators_find_names(text, gender, part):
    row = indicators([text]).iloc[0]
    (span,) = parse_spans(row["spans"])
    assert (row["indicator"], text[span.start : span.end], span.kind) == (gender, part, "name")


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Mr. Baker", "0:2:male-title"),
        ("Mrs Robinson", "0:3:female-title"),
        ("mr and mrs smith", "0:2:male-title;7:10:female-title"),
        ("Mr & Mrs Smith", "0:2:male-title;5:8:female-title"),
        ("MISS a train, miss it", ""),
        ("Miss Marple", "0:4:female-title"),
        ("a sir knight", ""),
        ("the woman's hat, women-only", "4:9:female-word;17:22:female-word"),
        ("Herman and the mangirl", ""),
        ("HE said", "0:2:male-pronoun"),
        ("Man and woman", "0:3:male-word;8:13:female-word"),
    ],
)
def test_indicators_of_words_pronouns_and_titles(text, spans):
    assert indicators([text], name_recognizer="off")["spans"].tolist() == [spans]


def test_indicators_are_linear_in_length():
    """With quadratic time this would not end."""
    long = ["Dr. Anna Baker,  Emma " * 5_000, " " * 300_000 + "Anna" + " " * 300_000 + "Novak"]
    assert indicators(long)["indicator"].tolist() == ["female", "female"]


def test_indicators_match_synthetic_ground_truth():
    # Each caption has a ground truth. Measured over 40,000 captions: all agree.
    captions = pd.concat(list(open_corpus("mini", max_captions=3000, seed=5).batches()), ignore_index=True)
    result = indicators(captions["text"])["indicator"]
    assert (result == captions["truth_indicator"]).mean() >= 0.999
    assert not ((result != "none") & (captions["truth_indicator"] == "none")).any()


def test_indicators_find_no_names_in_nameless_captions(root):
    # In these captions all persons' names were replaced by words: every name found is a mistake.
    captions = gcc.captions(root)[::4]
    small = {"a", "the", "of", "in", "on", "and", "to", "at", "for", "with", "is", "by", "from"}
    headlines = [" ".join(w if w in small else w[:1].upper() + w[1:] for w in c.split()) for c in captions]
    for texts, max_share in ((captions, 0), ([c.capitalize() for c in captions], 0), (headlines, 0.005)):
        names = indicators(texts)["spans"].str.contains("-name").mean()
        assert names <= max_share


def test_parse_spans_reads_spans():
    assert parse_spans("") == []
    assert parse_spans("0:3:male-word;5:9:female-name") == [Span(0, 3, "male", "word"), Span(5, 9, "female", "name")]


class FakeModel:
    """Replaces spaCy's model: each run of capitalised words is an entity with the given label."""

    def __init__(self, label="PERSON"):
        self.label, self.texts = label, []

    def pipe(self, texts):
        for text in texts:
            self.texts.append(text)
            yield SimpleNamespace(
                ents=[
                    SimpleNamespace(text=m[0], start_char=m.start(), end_char=m.end(), label_=self.label)
                    for m in re.finditer(r"[A-Z][\w.]*(?: [A-Z][\w.]*)*", text)
                ]
            )


@pytest.fixture
def fake_spacy(monkeypatch):
    """Return a function that installs a fake spaCy, with a model or None."""

    def install(model):
        def load(name):
            assert name == "en_core_web_lg"
            if model is None:
                raise OSError("[E050] Can't find model 'en_core_web_lg'.")
            return model

        module = ModuleType("spacy")
        module.load = load
        monkeypatch.setitem(sys.modules, "spacy", module)
        module_under_test._spacy_model.cache_clear()
        return model

    yield install
    module_under_test._spacy_model.cache_clear()


def test_indicators_with_spacy_names(fake_spacy):
    model = fake_spacy(FakeModel())
    texts = ["Anna with her dog", None, "Dr. Peter Novak", "Xyz Peter", "Xq and Zz", "a woman", 3.5]
    table = indicators(texts, name_recognizer="spacy")
    # The first word that is no title decides; a missing caption is an empty one to the model.
    assert table["indicator"].tolist() == ["female", "none", "male", "none", "none", "female", "none"]
    assert table["spans"].tolist()[:3] == ["0:4:female-name;10:13:female-pronoun", "", "0:15:male-name"]
    assert model.texts == ["Anna with her dog", "", "Dr. Peter Novak", "Xyz Peter", "Xq and Zz", "a woman", ""]
    fake_spacy(FakeModel("GPE"))
    assert indicators(["Anna", "Paris"], name_recognizer="spacy")["indicator"].tolist() == ["none", "none"]


def test_indicators_without_spacy_or_model_are_refused(fake_spacy, monkeypatch):
    fake_spacy(None)
    with pytest.raises(
        ParameterError,
        match=r"python -m spacy download en_core_web_lg`, or set captions.name_recognizer to 'gazetteer'",
    ):
        indicators(["x"], name_recognizer="spacy")
    # None in place of a module makes its import fail, whether it is installed or not.
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ParameterError, match=r"but spaCy or its model is not installed .*pip install spacy"):
        indicators(["x"], name_recognizer="spacy")


def test_indicators_accept_captions_of_any_type():
    texts = ["a man with Anna Kowalska", b"a man", 3, None, float("nan"), pd.NA, ["he"], "she", ""]
    assert indicators(texts)["indicator"].tolist() == ["both", *["none"] * 6, "female", "none"]
    table = indicators(pd.Series(texts, index=range(4, 13), dtype=object), name_recognizer="off")
    assert table["indicator"].tolist()[0] == "male" and table.index.tolist() == list(range(4, 13))
    assert indicators(iter(["a man"]))["indicator"].tolist() == ["male"]
    assert indicators(pd.Series(["a man", pd.NA], dtype="string"))["indicator"].tolist() == ["male", "none"]
    assert indicators([]).columns.tolist() == ["indicator", "spans"]


def test_indicators_do_not_span_captions():
    assert indicators(["wo", "man", "Anna", "Novak"])["spans"].tolist() == ["", "0:3:male-word", "", ""]
