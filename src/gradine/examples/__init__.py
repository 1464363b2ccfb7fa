"""Where (X, Y) comes from, always in blocks; what it looks like; what is kept for testing."""

from gradine.examples.first import FirstExamples
from gradine.examples.fitting import FittingData, add_each, append_constant
from gradine.examples.source import (
    ArrayExamples,
    Examples,
    FolderExamples,
    NpzExamples,
    open_examples,
)
from gradine.examples.split import MOST_CERTIFY, Split, held_out_sizes, make_split, take
from gradine.examples.survey import Survey, survey

__all__ = [
    "MOST_CERTIFY",
    "ArrayExamples",
    "Examples",
    "FirstExamples",
    "FittingData",
    "FolderExamples",
    "NpzExamples",
    "Split",
    "Survey",
    "add_each",
    "append_constant",
    "held_out_sizes",
    "make_split",
    "open_examples",
    "survey",
    "take",
]
