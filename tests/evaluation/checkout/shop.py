"""A shop in which one request of twelve is a checkout: windows in which checkouts work, fail, or wait.

Windows of a minute, of which a comparison takes one as reference, one as problem and some as history. An
unlabelled incident of the history has the fault of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluation.systems.playing import WINDOW_NS, Call, Fault, Operation, Playing, System
from evaluation.systems.recorded import APART_NS, T0, period

PAYING = "payment/POST /charge"
SHOP = System(
    "checkout-shop",
    (
        Operation("web/GET /", 8, (Call("catalog/list"), Call("cart/get"))),
        Operation("web/GET /product", 6, (Call("catalog/one"), Call("cart/get"))),
        Operation("web/POST /checkout", 9, (Call("cart/get"), Call(PAYING), Call("orders/create"))),
        Operation("catalog/list", 7),
        Operation("catalog/one", 3),
        Operation("cart/get", 2),
        Operation(PAYING, 12, (Call("bank/authorize"),)),
        Operation("bank/authorize", 25),
        Operation("orders/create", 6),
    ),
    {"web/GET /": 6, "web/GET /product": 5, "web/POST /checkout": 1},
    (),
    requests=420,
    pauses=0.2,
    drift=0.02,
    lost=0.0,
)
PLACES = ("payment", "checkout")
"""Words of which one is in whatever names the place."""

FAILS = Fault("checkouts fail", PAYING, fails=True)
LATE = Fault("checkouts fail from half of the window on", PAYING, fails=True, part=(0.5, 1.0))
SOME = Fault("half of the checkouts fail", PAYING, fails=True, share=0.5)
SLOW = Fault("payments take eight times as long", PAYING, slower=8.0)
WINDOWS: tuple[Fault | None, ...] = (*[None] * 12, *[FAILS] * 6, LATE, SOME, SOME, *[SLOW] * 6)
CALM, FAILING, LATELY, HALF, SLOWLY = range(12), range(12, 18), 18, (19, 20), range(21, 27)
"""Numbers of windows by what happens in them."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A comparison of windows, by their numbers."""

    name: str
    problem: int
    history: tuple[int, ...]
    reference: int = CALM[-1]


def history(ill: range, many: int, of: int = 10) -> tuple[int, ...]:
    """Windows of which so many are ill, from the second on with one between."""
    places = {1 + 2 * at for at in range(many)}
    wells, ills = iter(CALM), iter(ill)
    return tuple(next(ills if at in places else wells) for at in range(of))


VARIANTS = (
    Variant("one of ten windows fails, too", FAILING[-1], history(FAILING, 1)),
    Variant("three of ten", FAILING[-1], history(FAILING, 3)),
    Variant("four of ten", FAILING[-1], history(FAILING, 4)),
    Variant("five of ten", FAILING[-1], history(FAILING, 5)),
    Variant("three of ten, and half of the problem period", LATELY, history(FAILING, 3)),
    Variant("five of ten, and half of the problem period", LATELY, history(FAILING, 5)),
    Variant("the reference fails, too", FAILING[-1], history(FAILING, 0), reference=FAILING[0]),
    Variant("half of the reference fails", FAILING[-1], history(FAILING, 0), reference=HALF[0]),
    Variant("four of ten, and half of the checkouts", HALF[0], history(FAILING, 4)),
    Variant("four of ten windows are slow, as the problem is", SLOWLY[-1], history(SLOWLY, 4)),
)


def record(file: Path, seed: int = 0) -> None:
    """Write all windows as OTLP, a line each."""
    with file.open("w", encoding="utf-8") as out:
        for window, fault in enumerate(WINDOWS):
            playing = Playing(SHOP, fault, window, T0 + window * APART_NS, seed)
            playing.play()
            out.write(playing.document() + "\n")


def arguments(variant: Variant) -> tuple[str, ...]:
    """The options of `flowdiff compare` that choose its windows."""
    return (
        *("--reference", period(variant.reference), "--problem", period(variant.problem)),
        *("--history", ",".join(map(period, variant.history))),
    )


assert WINDOW_NS <= APART_NS
