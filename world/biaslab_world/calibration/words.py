"""What the tables of calibration answer: the entries of ``answers.yaml`` beside this file, by name."""

from pathlib import Path

from biaslab.papers.answers import read

answers = read(Path(__file__).parent)
