"""All technique cards, found by their files: a technique is one file in `cards/` with a ``CARD``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from rooftune.errors import WrongInput
from rooftune.spec.nearest import nearest
from rooftune.techniques import cards
from rooftune.techniques.card import Card


@cache
def all_cards() -> tuple[Card, ...]:
    """Every card, by problem of the method, then by name."""
    found = []
    for module in pkgutil.iter_modules(cards.__path__):
        card: Card = importlib.import_module(f"{cards.__name__}.{module.name}").CARD
        if card.name != module.name:
            raise RuntimeError(f"the card '{card.name}' lies in the file '{module.name}.py'")
        found.append(card)
    return tuple(sorted(found, key=lambda card: (card.problem, card.name)))


def card(name: str) -> Card:
    """One card by name; WrongInput naming the nearest for one that is not in the catalogue."""
    wanted = name.strip().lower().replace("-", "_").replace(" ", "_")
    for known in all_cards():
        if known.name == wanted:
            return known
    raise WrongInput(f"unknown technique '{name}'{nearest(wanted, [known.name for known in all_cards()])}")
