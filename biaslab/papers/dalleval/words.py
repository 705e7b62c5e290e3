"""What DALL-Eval's tables answer: the entries of ``answers.yaml`` beside this module."""

from pathlib import Path

from biaslab.papers.answers import read

answers = read(Path(__file__).parent)
