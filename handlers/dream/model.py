"""A language model's words for what the rules found.

Promise: where the model has none, or does not answer, the rule's own sentence stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from memory.clustering import Cluster
from memory.insights import Insight
from providers.ports import LanguageModel, Rejected, Unavailable

MAX_MEMORIES = 30
"""Memories of one cluster that a language model is shown."""


@dataclass(frozen=True, slots=True)
class Worded:
    """The insights of one cluster, and pairs (effect, cause) of its memories."""

    insights: Sequence[Insight]
    causes: Sequence[tuple[UUID, UUID]] = ()


async def word(
    model: LanguageModel, cluster: Cluster, draft: Insight, *, logger: FilteringBoundLogger
) -> Worded:
    """The model's words for the rule's insight, and its recommendation, if it has one."""
    shown = cluster.memories[-MAX_MEMORIES:]
    try:
        written = await model.insight([m.content for m in shown], draft.text)
    except (Unavailable, Rejected) as error:
        logger.info("insight_by_rule", provider=error.provider, error=type(error).__name__)
        return Worded([draft])
    insights = [replace(draft, text=written.text)]
    if written.recommendation:
        insights.append(replace(draft, category="recommendation", text=written.recommendation))
    return Worded(insights, [(shown[effect].id, shown[cause].id) for cause, effect in written.causal])
