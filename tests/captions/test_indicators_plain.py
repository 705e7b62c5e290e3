"""The indicators against the same rule written plainly: word by word, caption by caption, no tables of bytes.

The rule below follows the module's text alone and shares only the word lists with it.
"""

import itertools
import random
import re

import gcc

from biaslab import lexicons
from biaslab.captions.indicators import first_names, indicators
from biaslab.ground.plaintext import places


def words(text):
    return text.split()


PARTICLES = words("de da do dos di du del della der den von van la le el al bin")


def words_of(name):
    loaded = lexicons.load(name)
    return {w for group in loaded.values() for w in group} if hasattr(loaded, "values") else set(loaded)


LISTS = {
    name: words_of(name)
    for name in (
        *(
            "places",
            "words_also_names",
            "place_openers",
            "ambiguous_first_names",
            "surnames_too",
            "surname_words",
        ),
        *("caption_words", "institution_words", "titles", "brand_names", "gender_titles"),
    )
}
SAYS = {
    word: f"{gender}-{kind}"
    for kind, name in (("word", "gender_words"), ("pronoun", "gender_pronouns"))
    for gender, some in lexicons.load(name).items()
    for word in some
}
TITLES = {word: gender for gender, some in lexicons.load("gender_titles").items() for word in some}


class Token:
    def __init__(self, text, start, before):
        self.text, self.start, self.end = text, start, start + len(text)
        # Whether only spaces stand between it and the word before.
        self.joined = bool(before) and before.isspace()
        self.low = text.lower().rstrip(".")
        self.capital = text[0].isupper()
        self.proper = self.capital and any(c.islower() for c in text)
        self.initial = self.capital and len(text.rstrip(".")) == 1

    def is_a(self, name):
        return self.low in LISTS[name]


def tokens_of(text):
    tokens, end = [], 0
    for match in re.finditer(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*\.?", text):
        word = match[0]
        if len(word) > 5:
            word = word.removesuffix(".")
        word = word.removesuffix("'s").removesuffix("’s") if word[-2:] in ("'s", "’s") else word
        tokens.append(Token(word, match.start(), text[end : match.start()] if tokens else ""))
        end = tokens[-1].end
    return tokens


def names_in(text):
    tokens = tokens_of(text)
    long = [t for t in tokens if len(t.text) >= 4]
    headline = len(long) >= 4 and sum(t.capital for t in long) >= 0.8 * len(long)
    spans, i = [], 0
    while i < len(tokens):
        last, gender = name_at(tokens, i, headline)
        if gender:
            spans.append((tokens[i].start, tokens[last].end, f"{gender}-name"))
        i = max(i, last) + 1
    return spans


def name_at(tokens, i, headline):
    """Index of the last word of what starts at i (-1 where nothing does), and its gender if it is a person."""
    first = tokens[i]
    known = first_names()
    gender = known.get(first.text) or known.get(first.text.split("-")[0])
    if not gender or not first.proper or len(first.text) < 2:
        return -1, None
    if first.is_a("places") or first.is_a("words_also_names") or first.is_a("place_openers"):
        return -1, None
    doubtful = first.is_a("ambiguous_first_names")
    if len(first.text) == 2 and not doubtful:
        return -1, None
    before = tokens[i - 1] if i and first.joined else None
    if before and before.is_a("place_openers"):
        return -1, None
    chain = [first]
    for token in tokens[i + 1 :]:
        if not token.joined:
            break
        chain.append(token)
    j = 1
    while j < min(5, len(chain)) and (chain[j].initial or (chain[j].low in PARTICLES and j + 1 < len(chain))):
        j += 1
    if j < min(5, len(chain)) and is_surname(chain[j], doubtful, headline):
        behind = []
        for token in chain[j + 1 : j + 3]:
            if not token.capital:
                break
            behind.append(token)
        if any(t.is_a("institution_words") for t in behind):
            return i + j, None
        return i + j, None if f"{first.low} {chain[j].low}" in LISTS["brand_names"] else gender
    titled = before and (before.is_a("titles") or before.is_a("gender_titles"))
    if not titled or doubtful or first.is_a("surnames_too"):
        return -1, None
    return i, None if len(chain) > 1 and chain[1].capital and not headline else gender


def is_surname(token, doubtful, headline):
    low = token.low.split("-")[0]
    if not token.proper or len(low) < 2:
        return False
    common = low in LISTS["caption_words"]
    if low in LISTS["surname_words"] and not doubtful and not (headline and common):
        return True
    if common or low in LISTS["institution_words"]:
        return False
    if low in LISTS["places"] and low not in LISTS["surnames_too"]:
        return False
    return not ((doubtful or headline) and low in LISTS["words_also_names"])


def words_in(text):
    for match in re.finditer(r"[^\W_]+", text):
        word, rest = match[0].lower(), text[match.end() : match.end() + 200]
        if word in SAYS:
            yield match.start(), match.end(), SAYS[word]
        elif word in TITLES:
            after = re.match(r"\.?\s+([^\W\d_])", rest)
            if word in ("mr", "mrs"):
                good = after or re.match(r"\.?\s*[&+]", rest)
            else:
                good = after and match[0].istitle() and after[1].isupper()
            if good:
                yield match.start(), match.end(), f"{TITLES[word]}-title"


def plainly(text):
    found = sorted([*words_in(text), *names_in(text)], key=lambda s: s[:2])
    genders = {said.split("-")[0] for _, _, said in found}
    label = "both" if len(genders) == 2 else next(iter(genders), "none")
    return label, ";".join(f"{a}:{b}:{said}" for a, b, said in found)


def expected(text):
    """Return label and spans by the plain rule, which reads a text as people see it."""
    seen = places(text)
    label, spans = plainly(seen.text)
    each = (span.split(":") for span in spans.split(";") if span)
    moved = ((*seen.span(int(start), int(end)), what) for start, end, what in each)
    return label, ";".join(f"{start}:{end}:{what}" for start, end, what in moved)


def agree(texts):
    table = indicators(texts)
    for text, *ours in zip(texts, table["indicator"], table["spans"], strict=True):
        assert tuple(ours) == expected(text), repr(text)


def test_captions_of_the_web(root):
    rng = random.Random(1)
    captions = rng.sample(gcc.captions(root), 3000)
    agree(captions)
    agree([" ".join(w[:1].upper() + w[1:] for w in c.split()) for c in captions[:1500]])
    agree([c.title() if rng.random() < 0.5 else c.upper() for c in captions[1500:]])


# What the rule looks at: names and words of every list, in every case, between every kind of gap.
GAPS = [
    *"-._ \n\t\x1f\xa0–3٣²\0\u200b\u0301éÉß'’",
    "",
    " ",
    " ",
    " ",
    "  ",
    ", ",
    ". ",
    "'s ",
    "’s ",
    " - ",
    " & ",
]
GAPS += [".. ", " 3 ", "™ ", "! "]


def pool():
    names = sorted(first_names())
    rng = random.Random(2)
    some = {name: sorted(words) for name, words in LISTS.items()}
    plain = [*SAYS, *TITLES, *PARTICLES]
    plain += words(
        "A A. J. I Dr. O'Neil McKay Al-Din Kelvin İan mañ Anna Peter Mary-Jane Jean-Luc Ana-María José Zoë"
    )
    plain += words(
        "Émile Öz Łukasz Ed Smith Novak García Şahin Ñandú iraé gentlemane womens manq Park-Smith X-Ray"
    )
    plain += words("Young-Baker Green-Park Paris-Brown Иван Иванов 王伟")

    def draw():
        kind = rng.random()
        if kind < 0.05:
            between = rng.choice(["A.", "A", "J.", "H. W.", "de", "De", "van der", "de la", "Le"])
            return f"{rng.choice(names)} {between} {rng.choice(some['surname_words']).title()}"
        if kind < 0.3:
            return rng.choice(names)
        return rng.choice(plain) if kind < 0.55 else rng.choice(some[rng.choice(sorted(some))])

    return rng, draw


def hostile(rng, draw):
    parts = []
    for _ in range(rng.randint(1, 9)):
        word = draw()
        case = rng.random()
        if case < 0.45:
            word = word[:1].upper() + word[1:]
        elif case < 0.6:
            word = word.upper() if rng.random() < 0.5 else word.lower()
        parts += [word, rng.choice(GAPS)]
    return "".join(parts)


def test_words_of_every_list_between_gaps_of_every_kind():
    rng, draw = pool()
    agree([hostile(rng, draw) for _ in range(12_000)])


def test_two_plain_words_and_what_stands_around_them():
    before = ("", "Dr. ", "San ", "the ")
    first, gaps = ("Anna", "Mark", "Calvin", "Zoë"), (" ", "  ", "\t", "\xa0")
    surnames = ("Baker", "Novak", "Klein", "Müller", "Wu", "Street", "A" * 31)
    after = (
        *("", ".", ". Park", "'s", "’s Park", "-Park", "2", "_", ", Street", " 2 Street"),
        *(
            " walks",
            " Walks",
            " Street",
            " High School",
            " Memorial High School",
            " St. Park",
            " High-School",
        ),
        *("  Street", "\n Street", "\xa0Street", " O'Neil Street", " Éva Street", " street", " The. School"),
    )
    agree(["".join(parts) for parts in itertools.product(before, first, gaps, surnames, after)])


def test_any_characters():
    rng = random.Random(3)
    letters = "aeéÉAMNRSTmnrhs  ..-'’_\0\1\x1f\u2028\ud800\u202e٣²ǅKſ😀王Жж\u0301"
    agree(["".join(rng.choices(letters, k=rng.randint(0, 40))) for _ in range(8000)])


def test_a_very_long_caption_takes_time_by_its_length():
    # Were anything looked at again for each name, this would take very long.
    text = "Dr. Anna Baker,  Emma " * 15_000
    (label,) = indicators([text])["indicator"]
    assert label == "female"
    assert indicators(["Miss " * 60_000, "mr. " * 60_000])["indicator"].tolist() == ["female", "male"]
    assert indicators([" " * 300_000 + "Anna" + " " * 300_000 + "Novak"])["indicator"].tolist() == ["female"]


def test_a_caption_s_label_depends_on_no_other_caption():
    rng, draw = pool()
    texts = [hostile(rng, draw) for _ in range(300)]
    alone = [indicators([text])["spans"][0] for text in texts]
    assert indicators(texts)["spans"].tolist() == alone
    # A word does not go on in the next caption, nor a name.
    assert indicators(["wo", "man", "Anna", "Novak"])["spans"].tolist() == ["", "0:3:male-word", "", ""]
