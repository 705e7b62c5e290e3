"""Gender indicators: the paper's examples, names that are and are none, and the embedded world's truth."""

import gzip

import pandas as pd
import pytest

from biaslab.captions.corpus import open_corpus
from biaslab.captions.indicators import Span, indicators, parse_spans
from biaslab.errors import InputError, ParameterError

# Table 5 of the paper: captions' decisive parts, what decided, and the gender.
TABLE_5 = [
    ("Portrait of young woman programmer working at a computer", "woman", "female", "word"),
    ("Tired young indian programmer almost sleeping at his desk", "his", "male", "pronoun"),
    ("Female accountant very busy in office", "Female", "female", "word"),
    ("Accountant managing manual bill in his home office", "his", "male", "pronoun"),
    ("Iowa Republican Senator Chuck Grassley", "Chuck Grassley", "male", "name"),
    ("U.S. Senator Kirsten Gillibrand (D-NY) pauses in Washington", "Kirsten Gillibrand", "female", "name"),
    ("Portrait of young male mechanic in bicycle store, Beijing", "male", "male", "word"),
    ("Attractive woman photographer taking images.", "woman", "female", "word"),
    ("Photographer John G. Zimmerman", "John G. Zimmerman", "male", "name"),
]


@pytest.mark.parametrize(("text", "part", "gender", "kind"), TABLE_5)
def test_the_paper_s_examples(text, part, gender, kind):
    row = indicators([text]).iloc[0]
    assert row["indicator"] == gender
    (span,) = parse_spans(row["spans"])
    assert (text[span.start : span.end], span.gender, span.kind) == (part, gender, kind)


NO_NAME = """Baker|A Baker in Baker Street|Singer sewing machine|Singer Sewing Machine|Paris|Paris in spring
Paris Fashion Week|The Paris Metro|Virginia Beach|Virginia|West Virginia Mountaineers|Georgia Bulldogs|San Diego Zoo
Santa Monica Pier|St. John Hospital|John F. Kennedy Airport|Martin Luther King Blvd|Charlotte Airport|Lake Victoria
May Day|Rose Garden|Rose Gold Ring|Ruby Ring|Daisy Chain|Ivy League|Grace Period|Mark Your Calendar|Will Power
Summer Dress|Jack Daniels Whiskey|Calvin Klein Jeans|Michael Kors bag|Royal Albert Hall|Christmas Carol
President of the Company|Art Teacher|Chase Bank|Jordan Valley|Young Chef|Chef Baker|Dr. Thomas|Dr. Baker|emma watson
EMMA WATSON|Emma, Watson|the doctor Who|St Patrick's Day|Model T Ford|Sky News Arabia""".replace("\n", "|")


@pytest.mark.parametrize("text", NO_NAME.split("|"))
def test_no_name_is_found_where_there_is_none(text):
    assert indicators([text]).iloc[0].tolist() == ["none", ""]


@pytest.mark.parametrize(
    ("text", "gender", "part"),
    [
        ("Leana Wen, Planned Parenthood president", "female", "Leana Wen"),
        ("Brad Draper, percussion teacher", "male", "Brad Draper"),
        ("President Donald J. Trump - Official Photo", "male", "Donald J. Trump"),
        ("Portrait of President George H. W. Bush", "male", "George H. W. Bush"),
        ("Dr. Maria Lopez, dentist", "female", "Maria Lopez"),
        ("Dr. Maria smiles", "female", "Maria"),
        ("Chef Maria prepares a dish", "female", "Maria"),
        ("the baker John Baker", "male", "John Baker"),
        ("Grace Kelly in 1955", "female", "Grace Kelly"),
        ("Mark Zuckerberg, CEO", "male", "Mark Zuckerberg"),
        ("Abraham Lincoln", "male", "Abraham Lincoln"),
        ("Emma Stone Wears A Red Dress At Premiere", "female", "Emma Stone"),
        ("Oscar de la Hoya trains", "male", "Oscar de la Hoya"),
        ("Ludwig van Beethoven", "male", "Ludwig van Beethoven"),
        ("José García, pilot", "male", "José García"),
        ("Mary-Jane Watson", "female", "Mary-Jane Watson"),
        ("Sarah Connor's kitchen", "female", "Sarah Connor"),
        ("we met Anna.\nPeter Novak smiles", "male", "Peter Novak"),
    ],
)
def test_names_are_found(text, gender, part):
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
def test_words_pronouns_and_forms_of_address(text, spans):
    assert indicators([text], names="off")["spans"].tolist() == [spans]


def test_both_and_none_and_missing():
    texts = pd.Series(["a man with Anna Kowalska", None, "", float("nan")], index=[4, 5, 6, 7], dtype=object)
    table = indicators(texts)
    assert table["indicator"].tolist() == ["both", "none", "none", "none"]
    assert table.index.tolist() == [4, 5, 6, 7]
    assert indicators(texts, names="off")["indicator"].tolist()[0] == "male"


def test_every_person_of_a_caption():
    text = "Anna Kowalska and Peter Novak with Dr. Lucy"
    spans = parse_spans(indicators([text])["spans"][0])
    assert [(text[s.start : s.end], s.gender) for s in spans] == [
        ("Anna Kowalska", "female"),
        ("Peter Novak", "male"),
        ("Lucy", "female"),
    ]


def test_the_embedded_world_s_truth():
    # What each caption says is known. Measured over 40,000 captions: all agree.
    captions = pd.concat(list(open_corpus("mini", rows=8000, seed=5).batches()), ignore_index=True)
    found = indicators(captions["text"])["indicator"]
    assert (found == captions["truth_indicator"]).mean() >= 0.999
    assert not ((found != "none") & (captions["truth_indicator"] == "none")).any()


def test_real_captions_without_names(root):
    # In these captions all persons' names were replaced by words: every name found is a mistake.
    path = root.parent / "shared" / "data" / "gcc_validation_captions.txt.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    captions = gzip.decompress(path.read_bytes()).decode().split("\n")[::4]
    small = {"a", "the", "of", "in", "on", "and", "to", "at", "for", "with", "is", "by", "from"}
    headlines = [" ".join(w if w in small else w[:1].upper() + w[1:] for w in c.split()) for c in captions]
    for texts, most in ((captions, 0), ([c.capitalize() for c in captions], 0), (headlines, 0.005)):
        names = indicators(texts)["spans"].str.contains("-name").mean()
        assert names <= most


def test_spans_read_back():
    assert parse_spans("") == []
    assert parse_spans("0:3:male-word;5:9:female-name") == [
        Span(0, 3, "male", "word"),
        Span(5, 9, "female", "name"),
    ]
    with pytest.raises(InputError, match="'1:2' is no span"):
        parse_spans("1:2")


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match=r"names is 'gazeteer'. Did you mean 'gazetteer'"):
        indicators(["x"], names="gazeteer")
    try:
        import spacy  # noqa: F401
    except ImportError:
        with pytest.raises(ParameterError, match=r"spaCy is not installed; run `pip install spacy`"):
            indicators(["x"], names="spacy")
