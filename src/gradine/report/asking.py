"""The sections about a layer that was asked: what that cost, and what the first look showed."""

from __future__ import annotations

from gradine.fit import Asking
from gradine.queries.by_fit.scout import Scouted
from gradine.queries.config import QueryConfig
from gradine.report import exact_pictures as pictures
from gradine.report.draw import number
from gradine.report.parts import facts, panels, section
from gradine.report.story import Story

__all__ = ["asking"]


def asking(story: Story) -> list[str]:
    """Both sections; the second only where there was a first look."""
    assert story.fit.asking is not None
    seen = [it for it in story.fit.phases.values() if isinstance(it, Scouted)]
    cost = _cost(story, story.fit.asking)
    return [cost, _first_look(seen[-1])] if seen else [cost]


def _cost(story: Story, asked: Asking) -> str:
    text = (
        "A query is a sequence that was sent, and a row is a row of outputs that came back. "
        "Queries that verify took no part in learning. The counting bound is as many rows as hold "
        "as many numbers as the layer has unknowns: with fewer nothing is determined, however one "
        "asks."
    )
    learning = asked.rows_used - asked.verify_rows
    listing = {
        "queries to learn": number(asked.queries_used - asked.verify_queries),
        "queries to verify": number(asked.verify_queries),
        "rows to learn": number(learning),
        "rows to verify": number(asked.verify_rows),
    }
    if (bound := _bound(story)) and story.fit.learned:
        listing["counting bound, in rows"] = number(round(bound))
        listing["rows to learn over the bound"] = f"{learning / bound:.2f}"
    if asked.failures:
        listing["calls that failed"] = number(asked.failures)
    answers = {
        "seconds spent answering": f"{asked.seconds:.2f}",
        "answers are": asked.precision or "not looked at",
        "noise of an answer, relative": number(asked.noise),
    }
    most = getattr(story.fit.phases.get("verify"), "size", None)
    if most is not None:
        answers["size of the tokens that verify"] = number(float(most))
    return section("asking", "What asking cost", text, panels(facts(listing), facts(answers)))


def _bound(story: Story) -> float:
    """Rows with as many numbers as the answer has unknowns."""
    layer, config = story.fit.candidate, story.fit.config
    if layer is None or not isinstance(config, QueryConfig):
        return 0.0
    m, d, out = layer.n_heads, layer.dim, layer.out_dim
    rank = config.exact.rank
    if rank is None:
        return m * layer.width * (d + out) / out
    return m * rank * (2 * layer.width + d + out - 2 * rank) / out


class _Values:
    """What the picture of singular values needs."""

    def __init__(self, seen: Scouted) -> None:
        self.values, self.edge, self.heads = seen.values, seen.floor, seen.heads


def _first_look(seen: Scouted) -> str:
    text = (
        "Small tokens beside one large one: to first order their rows come from a matrix whose "
        "rank is the number of heads, so that singular values fall by orders of magnitude after "
        "them. Heads with equal Theta show as one, and a head with W = 0 not at all. The number is "
        "only where the fit begins."
    )
    if not seen.sure:
        text += " Here no gap follows the heads that were counted: there may be more of them."
    listing = {
        "heads counted": number(seen.heads),
        "spread of a logit, tokens of size 1": number(seen.logit),
        "biases": "yes" if seen.constant else "no",
        "queries": number(seen.queries),
        "rows": number(seen.rows),
    }
    picture = pictures.moments(_Values(seen), "scout", "the first look")
    return section("scout", "The first look", text, panels(picture, facts(listing)))
