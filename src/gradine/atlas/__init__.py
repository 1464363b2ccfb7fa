"""The map: which learner finds which layer, over a grid of settings, judged by the truth."""

from gradine.atlas.axis import Axis, parse_axis
from gradine.atlas.setting import PARAMETERS, Setting, make_setting
from gradine.atlas.sweep import Map, MapConfig, sweep
from gradine.atlas.trial import LEARNERS, Trial, run_trial

__all__ = [
    "LEARNERS",
    "PARAMETERS",
    "Axis",
    "Map",
    "MapConfig",
    "Setting",
    "Trial",
    "make_setting",
    "parse_axis",
    "run_trial",
    "sweep",
]
