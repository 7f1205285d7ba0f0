"""All rules, in the order in which they are tried: of a clause the first that gives a fact counts."""

from __future__ import annotations

from memory.facts.draft import Rule
from memory.facts.health import HEALTH
from memory.facts.living import HOME, STUDY, WORK
from memory.facts.people import FAMILY, WHO_ONE_IS
from memory.facts.plans import DECISIONS, PLANS
from memory.facts.tastes import TASTES, THINGS

RULES: tuple[Rule, ...] = (
    *PLANS, *WHO_ONE_IS, *HOME, *WORK, *STUDY, *HEALTH, *FAMILY, *THINGS, *TASTES, *DECISIONS,
)  # fmt: skip
