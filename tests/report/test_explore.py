"""What one can do with a report in a browser, and that its numbers are those of Python."""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import gradine
from gradine.attention_functions import FUNCTIONS, SOFTMAX
from gradine.report import explore, report_html

pytestmark = pytest.mark.browser

NEAR = 1e-5  # what the page may be away from Python


@pytest.fixture
def show(browser, tmp_path):
    """Opens the report of a run; it must have nothing to complain about in the end."""
    pages = []

    def open_report(fit, **given):
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(report_html(fit, **given), encoding="utf-8")
        pages.append(browser.page(path))
        return pages[-1]

    yield open_report
    for page in pages:
        assert page.complaints() == []
        page.close()


def answered(fit: gradine.Fit, layer: gradine.AttentionLayer) -> gradine.Fit:
    """The fit as if it had come to this layer."""
    survey = replace(fit.survey, x_mean=np.zeros(layer.dim), y_mean=np.zeros(layer.out_dim))
    return replace(
        fit,
        candidate=layer,
        layer=layer,
        heads=layer.n_heads,
        theorem=None,
        phases={},
        survey=survey,
    )


def moved(layer: gradine.AttentionLayer, by: float) -> gradine.AttentionLayer:
    """A layer whose heads are off by that much, the second one most."""
    rng = np.random.default_rng(5)
    factors = by * np.where(np.arange(layer.n_heads) == 1, 10.0, 1.0)[:, None, None]
    theta = layer.theta + factors * rng.standard_normal(layer.theta.shape)
    return gradine.AttentionLayer(theta, layer.w, layer.constant, attention=layer.function.name)


def typed(page, text: str) -> None:
    page.run("document.getElementById('tokens-text').select()")
    page.run("document.getElementById('tokens-text').focus()")
    page.send("Input.insertText", text=text)


def error(page) -> str:
    return page.run("document.getElementById('tokens-error').textContent")


def choose(page, name: str, value: str) -> None:
    page.run(
        f"(() => {{ const it = document.getElementById({name!r}); it.value = {value!r};"
        "it.dispatchEvent(new Event('change')); })()"
    )


def patterns(page) -> np.ndarray:
    """Weights (tables, k, k) with all their digits."""
    rows = page.run(
        "[...document.querySelectorAll('#patterns table')].map(table => "
        "[...table.tBodies[0].rows].map(row => [...row.cells].slice(1).map(cell => cell.title)))"
    )
    return np.array([[[float(x.split(": ")[1]) for x in row] for row in it] for it in rows])


def text_of(X: np.ndarray) -> str:
    return "\n".join(" ".join(f"{x:.6g}" for x in row) for row in X)


@pytest.mark.parametrize(
    ("attention", "constant"),
    [("softmax", True), ("polynomial", False), ("sigmoid", True), ("relu", False)],
)
def test_attention_of_own_tokens_is_that_of_python(show, single, attention, constant):
    truth = gradine.plant(
        3, 6, scale=4.0, seed=4, out_dim=5, constant=constant, attention=attention
    ).canonical()
    learned = moved(truth, 1e-3)
    page = show(answered(single.fit, learned), truth=truth)
    X = np.round(2.0 * np.random.default_rng(1).standard_normal((5, 6)), 4)
    typed(page, text_of(X))
    assert error(page) == ""
    expected = np.stack([learned.canonical().attention(X), truth.attention(X)])
    shown = patterns(page).reshape(3, 2, 5, 5).swapaxes(0, 1)
    match = gradine.compare(learned, truth)
    assert np.abs(shown[0] - expected[0][match.order]).max() < NEAR
    assert np.abs(shown[1] - expected[1]).max() < NEAR
    assert np.abs(shown[0] - shown[1]).max() > 1e-4  # so that no mistake of this kind passes
    said = page.run("document.getElementById('output').lastChild.textContent")
    apart = np.linalg.norm(learned(X) - truth(X)) / np.linalg.norm(truth(X))
    assert float(re.search(r"layer: ([\d.]+) ", said)[1]) == pytest.approx(apart, rel=1e-2)
    # The output itself, read by keyboard: the last entry of the second row.
    page.run("document.querySelector('#output .lens').focus()")
    page.press("ArrowDown")
    page.press("End")
    read = page.run("document.querySelector('#output output').textContent")
    assert read.startswith("token 2, output 5: ")
    assert number_in(read) == pytest.approx(learned(X)[1, 4], rel=1e-2, abs=1e-3)


def number_in(words: str) -> float:
    """The last number that the page wrote, powers of ten included."""
    plain = words.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")).replace("·10", "e")
    return float(plain.replace(",", "").split()[-1])


def test_wide_heads_are_sent_by_their_factors(show, single, monkeypatch):
    truth = gradine.plant(2, 150, scale=3.0, rank=4, seed=4)
    learned = gradine.AttentionLayer(truth.theta + 1e-13, truth.w)
    fit = answered(single.fit, learned)
    X = gradine.sample_inputs(1, 6, 150, "gaussian", seed=3)[0]
    page = show(fit, truth=truth, example=X)
    written = np.array([[float(f"{x:.6g}") for x in row] for row in X])
    expected = learned.canonical().attention(written)
    assert np.abs(patterns(page)[::2] - expected).max() < NEAR
    sent = json.loads(page.run("document.getElementById('data').textContent"))["matrices"]
    assert sent["theta-learned-0"]["left"]["shape"] == [150, 4]
    # A pixel is the strongest entry of two rows and columns.
    page.point("#heads .lens", x=0.999, y=0.001)
    read = page.run("document.querySelector('#heads .readout').textContent")
    block = learned.canonical().theta[0][:2, 148:]
    strongest = block.ravel()[np.abs(block).argmax()]
    assert "strongest of rows 1 to 2, columns 149 to 150" in read
    assert number_in(read.split(", true")[0]) == pytest.approx(strongest, rel=1e-3)
    assert "difference -1.00·10⁻¹³" in read or "difference 1.00·10⁻¹³" in read

    monkeypatch.setattr(explore, "MOST_NUMBERS", 5000)  # room for the learned heads alone
    alone = json.loads(explore_data(report_html(fit, truth=truth)))
    assert "theta-learned-0" in alone["matrices"] and not alone["trueHeads"]
    monkeypatch.setattr(explore, "MOST_NUMBERS", 100)
    page = show(fit, truth=truth)
    assert "too large to be inside this page" in page.run("document.body.innerText")
    assert not page.run("document.getElementById('editor').checkVisibility()")


def explore_data(html: str) -> str:
    return html.split('<script type="application/json" id="data">')[1].split("</script>")[0]


def test_an_attention_function_that_the_page_does_not_know(show, single, monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "own", replace(SOFTMAX, name="own"))
    page = show(answered(single.fit, gradine.plant(1, 6, attention="own")))
    assert "cannot compute the attention function “own”" in page.run("document.body.innerText")
    assert not page.run("document.getElementById('editor').checkVisibility()")


BAD_TOKENS = {
    " ": "There are no tokens; expected rows of 6 numbers.",
    "1 2 3 4 5 6\n1 2 3": "Token 2 has 3 numbers; expected 6.",
    "1 2 3 4 5 x": "Token 1: “x” is no number.",
    "1 2 3 4 5 NaN": "Token 1: “NaN” is no number.",
    "1 2 3 4 5 1e999": "Token 1: “1e999” is no number.",
    "[[1, 2, 3, 4, 5, null]]": "Token 1: “null” is no number.",
    "1e160 1 1 1 1 1\n-1e160 1 1 1 1 1": "Token 1: 1e+160 is too large for the numbers that this "
    "layer makes of it.",
    "1 1 1 1 1 1\n1 1 -1e308 1 1 1": "Token 2: -1e+308 is too large for the numbers that this "
    "layer makes of it.",
    "1 1 1 1 1 1\n" * 129: "There are 129 tokens; expected at most 128.",
}


def test_bad_tokens_are_refused_in_one_line(show, single):
    page = show(single.fit, example=single.example)
    before = patterns(page)
    invalid = "document.getElementById('tokens-text').ariaInvalid"
    for text, said in BAD_TOKENS.items():
        typed(page, text)
        assert error(page) == said
        assert page.run(invalid) == "true"
        assert np.array_equal(patterns(page), before)  # what was there stays
    typed(page, "1 1 1 1 1 1")
    assert error(page) == "" and page.run(invalid) is None
    assert patterns(page).shape == (1, 1, 1)


@pytest.mark.parametrize("attention", ["polynomial", "relu"])
def test_no_number_of_the_page_is_broken_whatever_is_typed(show, single, attention):
    page = show(answered(single.fit, gradine.plant(2, 6, attention=attention)))
    for power in (0, 60, 90, 110, 154, 160, 300):  # logits, weights or outputs give out in turn
        typed(page, f"1e{power} 1 1 1 1 1\n-1e{power} 1 1 1 1 1\n0 0 0 0 0 0")
        words = page.run("document.querySelector('#attention').innerText")
        assert not re.search(r"NaN|Infinity|unknown|⁻⁻", words), power
        assert np.isfinite(patterns(page)).all()
    assert error(page).startswith("Token 1: 1e+300 is too large")
    before = patterns(page)
    page.run("document.getElementById('value').focus()")
    page.run("document.getElementById('value').select()")
    page.send("Input.insertText", text="1e250")
    assert error(page).startswith("Token 1: 1e+250 is too large")
    assert np.array_equal(patterns(page), before)
    page.point("[data-tokens=reverse]", click=True)  # of the tokens that were taken
    assert error(page) == "" and not np.array_equal(patterns(page), before)


def test_rows_json_and_arrays_of_numpy_are_read(show, single):
    page = show(single.fit)
    X = gradine.sample_inputs(1, 3, 6, seed=8)[0] * 1.5
    expected = single.fit.layer.canonical().attention(X)
    wrapped = np.array2string(X, max_line_width=20)
    for text in (text_of(X).replace(" ", ",\t"), json.dumps(X.tolist()), str(X), wrapped):
        typed(page, "1 2 3 4 5 6")
        typed(page, text)
        assert np.abs(patterns(page) - expected).max() < NEAR


def test_tokens_are_changed_by_buttons_and_by_numbers(show, single):
    words = ["a", "b", "<c>"]
    page = show(single.fit, example=single.example, words=words)
    layer, X = single.fit.layer.canonical(), single.example

    def press(name: str) -> np.ndarray:
        page.point(f"[data-tokens={name}]", click=True)
        rows = page.run("document.getElementById('tokens-text').value").split("\n")
        return np.array([[float(x) for x in row.split()] for row in rows])

    def heard() -> list[str]:
        return page.run(
            "[...document.querySelectorAll('#patterns tbody th')].map(it => it.innerText)"
        )

    assert heard() == words
    assert np.array_equal(press("reverse"), X[::-1]) and heard() == words[::-1]
    assert np.array_equal(press("example"), X) and heard() == words
    mixed = press("shuffle")
    assert not np.array_equal(mixed, X) and sorted(map(tuple, mixed)) == sorted(map(tuple, X))
    press("example")
    assert np.array_equal(press("double"), 2 * X)
    assert np.array_equal(press("halve"), X)
    assert np.array_equal(press("negate"), -X)
    assert np.abs(patterns(page) - layer.attention(-X)).max() < NEAR
    choose(page, "sampled", "gaussian")
    page.run("document.getElementById('count').value = 4")
    first, second = press("draw"), press("draw")
    assert first.shape == second.shape == (4, 6) and not np.array_equal(first, second)
    assert heard() == ["1", "2", "3", "4"]
    press("example")
    for name, value in (("token", "2"), ("coordinate", "3"), ("value", "-2.5")):
        page.run(f"document.getElementById({name!r}).select()")
        page.run(f"document.getElementById({name!r}).focus()")
        page.send("Input.insertText", text=value)
    changed = X.copy()
    changed[1, 2] = -2.5
    assert np.abs(patterns(page) - layer.attention(changed)).max() < NEAR


def test_values_under_the_pointer_and_by_keyboard(show, pair):
    page = show(pair.fit, truth=pair.truth)
    learned, truth = pair.fit.layer.canonical(), pair.truth.canonical()
    order = gradine.compare(pair.fit.layer, pair.truth).order
    theta = learned.theta[order[0]]
    side = len(theta)
    page.point("#heads .lens", x=2.5 / side, y=4.5 / side)
    readout = "document.querySelector('#heads .readout').textContent"
    place, values = page.run(readout).split(": ")
    assert place == "row 5, column 3"
    shown = [number_in(part) for part in values.split(", ")]
    expected = [theta[4, 2], truth.theta[0][4, 2], theta[4, 2] - truth.theta[0][4, 2]]
    assert shown == pytest.approx(expected, rel=6e-3, abs=1e-15)
    page.run("document.querySelector('#heads .lens').focus()")
    for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
        page.press(key)
    assert page.run(readout).startswith("row 3, column 4: learned ")
    page.press("Home")
    assert page.run(readout).startswith("row 3, column 1: ")
    for _ in range(3):
        page.press("ArrowUp")
    assert page.run(readout).startswith("row 1, column 1: ")  # it ends there
    assert page.run("document.querySelectorAll('#heads .head')[0].querySelectorAll("
                    "'.panel:first-child .cursor:not([hidden])').length") == 3  # fmt: skip
    page.point("#heads .numbers summary", click=True)
    page.until("document.querySelector('#heads .numbers td') !== null")  # made when it opens
    cells = page.run("[...document.querySelectorAll('#heads .numbers td')].map(it => it.innerText)")
    assert number_in(cells[1]) == pytest.approx(theta[0, 0], rel=1e-3)


def test_heads_are_switched_and_ordered(show, single):
    planted = gradine.plant(3, 6, scale=4.0, seed=4).canonical()
    sizes = np.array([1.0, 3.0, 2.0])[:, None, None]
    truth = gradine.AttentionLayer(sizes * planted.theta, planted.w)
    page = show(answered(single.fit, moved(truth, 1e-4)), truth=truth)
    match = gradine.compare(moved(truth, 1e-4), truth)

    def listed() -> list[int]:
        return page.run(
            "[...document.querySelectorAll('#heads .head')].map(it => +it.dataset.head)"
        )

    def visible(where: str) -> list[int]:
        return page.run(f"[...document.querySelectorAll('{where} [data-head]')].filter(it => "
                        "it.checkVisibility()).map(it => +it.dataset.head)")  # fmt: skip

    errors = np.maximum(match.theta_error, match.w_error)
    by = {
        "listed": [0, 1, 2],
        "best": np.argsort(errors).tolist(),
        "worst": np.argsort(-errors).tolist(),
        "w": [0, 1, 2],
        "theta": np.argsort(-np.linalg.norm(truth.canonical().theta, axis=(1, 2))).tolist(),
    }
    assert len({tuple(order) for order in by.values()}) == 4
    for order, expected in by.items():
        choose(page, "order", order)
        assert listed() == visible("#heads") == visible("#patterns") == expected, order
    choose(page, "order", "worst")
    page.run("document.getElementById('head-after').focus()")
    page.press("Enter")
    assert visible("#heads") == visible("#patterns") == by["worst"][:1]
    page.press("Enter")
    assert visible("#heads") == by["worst"][1:2]
    page.run("document.getElementById('head-before').focus()")
    page.press("Space")
    page.press("Space")
    assert visible("#heads") == by["worst"]
    names = page.run("[...document.getElementById('head').options].map(it => it.text)")
    assert names == ["all 3", *(f"Head {match.order[place]}" for place in by["worst"])]
    bar = "document.getElementById('heads-bar').checkVisibility()"
    assert page.run(bar) and not show(single.fit).run(bar)  # of one head there is no choice
    alone = show(answered(single.fit, truth))  # no truth, no match to order by
    orders = alone.run("[...document.getElementById('order').options].map(it => it.value)")
    assert orders == ["listed", "w", "theta"]


def test_phases_one_at_a_time(show, pair, cancelled):
    page = show(pair.fit, truth=pair.truth)
    visible = ("[...document.querySelectorAll('#steps > li')].filter(it => it.checkVisibility())"
               ".map(it => it.id)")  # fmt: skip
    names = [f"phase-{name}" for name in [*pair.fit.phases, "end"]]
    page.run("document.getElementById('step-after').focus()")
    seen = page.run(visible)
    for _ in names[1:]:
        page.press("ArrowRight")
        seen += page.run(visible)
    assert seen == names
    assert page.run("document.getElementById('step-after').ariaDisabled") == "true"
    page.press("Home")
    assert page.run(visible) == names[:1]
    page.point("#step-after", click=True)
    said = page.run("document.getElementById('steps-said').textContent")
    assert page.run(visible) == names[1:2] and said == f"2 of {len(names)}: 2 sculpt"
    page.point(".way a[href='#phase-span']", click=True)
    page.run("new Promise(done => setTimeout(done, 100))")
    assert page.run(visible) == ["phase-span"]
    assert page.run("document.querySelector('.way [aria-current=step]').textContent") == "✓ 5 span"
    page.run("new Promise(done => setTimeout(done, 700))")  # the page has come to rest
    page.point("#steps-all", click=True)
    assert page.run(visible) == names
    stopped = show(cancelled.fit)
    assert stopped.run(visible) == ["phase-end"]
    assert "stopped at crude_sum" in stopped.run("document.getElementById('steps').innerText")


def test_python_of_the_page_gives_what_it_shows(show, single, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    single.fit.layer.save("layer.safetensors")
    page = show(single.fit, truth=single.truth, example=single.example)
    choose(page, "head", "0")
    typed(page, "0.5 1 -1 1 1 2\n1 1 -1 1 1 -1.25")
    page.run("document.getElementById('python').open = true")
    printed = io.StringIO()
    code = page.run("document.getElementById('attention-python').textContent")
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    numbers = [float(x) for x in re.findall(r"[\d.]+(?:e-?\d+)?", printed.getvalue())]
    assert np.abs(np.array(numbers).reshape(2, 2) - patterns(page)[0]).max() < NEAR
    page.allow("clipboardReadWrite", "clipboardSanitizedWrite")
    page.point("[data-copy=run-python]", click=True)
    said = "document.getElementById('run-python-said').textContent"
    page.until(said)
    assert page.run(said) == "Copied."
