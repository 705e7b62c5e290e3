"""Time the gender indicators (names by the gazetteer), compared with a straightforward loop.

Run: ``python benchmarks/indicators.py --captions gcc_validation_captions.txt.gz``, a text file with one caption per
line, compressed or not (default: captions of the synthetic world). It prints microseconds per caption of both and their
ratio from one run, for three spellings: as in the file; with an initial capital and with names of people in place of
the word "person"; and with every word capitalized, also with names.

The loop uses two compiled regular expressions, ignoring case, for the words and pronouns of each gender, then
gender-guesser for every capitalized word, with one detector for all captions. It returns a gender or none. Ours also
returns positions, and does not treat every capitalized word as a name. Both run in one thread of one process.
"""

import argparse
import platform
import random
import re
import resource
import sys
import time

from _corpus import read_lines

from biaslab import lexicons
from biaslab.captions.indicators import indicators


class Loop:
    """A straightforward implementation."""

    def __init__(self) -> None:
        from gender_guesser.detector import Detector

        lists = [lexicons.load(name) for name in ("gender_words", "gender_pronouns")]
        self.female, self.male = (
            re.compile(rf"\b(?:{'|'.join(word for words in lists for word in words[gender])})\b", re.IGNORECASE)
            for gender in ("female", "male")
        )
        self.word, self.detector = re.compile(r"\w+"), Detector()

    def __call__(self, captions: list[str]) -> list[str]:
        labels = []
        for caption in captions:
            female = self.female.search(caption) is not None
            male = self.male.search(caption) is not None
            for word in self.word.findall(caption):
                if word[0].isupper():
                    gender = self.detector.get_gender(word)
                    female = female or gender in ("female", "mostly_female")
                    male = male or gender in ("male", "mostly_male")
            labels.append("both" if female and male else "female" if female else "male" if male else "none")
        return labels


def ways(captions: list[str]) -> dict[str, list[str]]:
    """Return the captions in three spellings."""
    rng = random.Random(0)
    persons = [name for names in lexicons.load("laureates").values() for name in names]
    named = [re.sub(r"\bperson\b", lambda _: rng.choice(persons), caption) for caption in captions]
    return {
        "as in the file": captions,
        "sentences, with names": [caption[:1].upper() + caption[1:] for caption in named],
        "headlines, with names": [" ".join(w[:1].upper() + w[1:] for w in c.split(" ")) for c in named],
    }


def fastest(work, captions: list[str], runs: int) -> float:
    """Return the processor time per caption in microseconds, of the fastest run to reduce the effect of other work."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        work(captions)
        seconds.append(time.process_time() - start)
    return 1e6 * min(seconds) / len(captions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", default="", help="file of one caption per line, .gz or not")
    parser.add_argument("--rows", type=int, default=200_000, help="captions of ours, repeated as needed")
    parser.add_argument("--peer-rows", type=int, default=20_000, help="captions of the loop's")
    parser.add_argument("--runs", type=int, default=3, help="of each, of which the fastest counts")
    options = parser.parse_args()

    captions, loop = read_lines(options.captions), Loop()
    indicators(captions[:100])
    print(
        f"{platform.processor() or 'CPU'}, one thread; Python {sys.version.split()[0]}; {len(captions):,} captions, "
        f"repeated to {options.rows:,}; the loop takes {options.peer_rows:,}"
    )
    totals = [0.0, 0.0]
    for way, texts in ways(captions).items():
        ours_texts = (texts * (options.rows // len(texts) + 1))[: options.rows]
        peer_texts = ours_texts[: options.peer_rows]
        ours = fastest(indicators, ours_texts, options.runs)
        peer = fastest(loop, peer_texts, options.runs)
        table = indicators(peer_texts)
        agreement = sum(a == b for a, b in zip(table["indicator"], loop(peer_texts), strict=True)) / len(peer_texts)
        name_share = table["spans"].str.contains("-name").mean()
        totals = [totals[0] + ours, totals[1] + peer]
        print(
            f"{way:24s} biaslab {ours:6.2f} us   loop {peer:6.2f} us   ratio {peer / ours:5.1f} x   "
            f"names in {100 * name_share:4.1f}%, same label as the loop in {100 * agreement:.1f}%"
        )
    print(
        f"{'all three':24s} biaslab {totals[0] / 3:6.2f} us   loop {totals[1] / 3:6.2f} us   "
        f"ratio {totals[1] / totals[0]:5.1f} x"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"peak memory {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
