"""What the tables of the Paired Stereotype Test answer, as ``answers.yaml`` beside this declares it."""

from pathlib import Path

from biaslab.papers.answers import read

answers = read(Path(__file__).parent)
