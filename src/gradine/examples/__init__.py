"""Where (X, Y) comes from, always in blocks; what it looks like; what is kept for testing."""

from gradine.examples.errors import BadBlock, BlockError
from gradine.examples.fitting import FittingData, append_constant
from gradine.examples.generated import GeneratedExamples
from gradine.examples.opening import open_examples
from gradine.examples.source import ArrayExamples, Examples, FolderExamples, NpzExamples
from gradine.examples.split import MOST_CERTIFY, Split, held_out_sizes, make_split, take
from gradine.examples.survey import Survey, survey

__all__ = [
    "MOST_CERTIFY",
    "ArrayExamples",
    "BadBlock",
    "BlockError",
    "Examples",
    "FittingData",
    "FolderExamples",
    "GeneratedExamples",
    "NpzExamples",
    "Split",
    "Survey",
    "append_constant",
    "held_out_sizes",
    "make_split",
    "open_examples",
    "survey",
    "take",
]
