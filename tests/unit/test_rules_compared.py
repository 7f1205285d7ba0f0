"""Rules of coding agents: which later one takes the place of which."""

from __future__ import annotations

from time import process_time

from plugins.hooks.differing import replaced


def test_thousands_of_rules_of_one_project_are_compared_quickly() -> None:
    """Each with each they would take half a minute."""
    rules = [
        f"the {one} of part {n} runs on port {8000 + n}" for n in range(1500) for one in ("api", "worker")
    ]
    rules += [rule.replace("port 8", "port 1") for rule in rules[:10]]
    began = process_time()
    assert replaced([(rule, rule) for rule in rules], set(rules)) == list(
        zip(rules, rules[3000:], strict=False)
    )
    assert process_time() - began < 5
