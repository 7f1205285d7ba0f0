"""A language model's words for what the rules found.

Promise: where there is no model, or it does not answer, the rule's own sentence stands. What the model's reply can change is
the text, one recommendation, and causal links between memories that it was shown; never a category, a confidence or a source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from handlers.dream.prompt import MAX_MEMORIES, insight_prompt
from handlers.shared.thinking import Silent, Thinker
from memory.clustering import Cluster
from memory.insights import Insight


@dataclass(frozen=True, slots=True)
class Cause:
    """One memory brought about another."""

    effect: UUID
    cause: UUID
    strength: float


@dataclass(frozen=True, slots=True)
class ClusterInsights:
    """The insights of one cluster, and causes among its memories. `by`: the model that wrote them; None: a rule."""

    insights: Sequence[Insight]
    causes: Sequence[Cause] = ()
    by: str | None = None


@dataclass(slots=True)
class Wording:
    """Puts the insights of one dream in words. `by_rule`: how often the model did not, by reason."""

    thinker: Thinker | None
    by_rule: Counter[str] = field(default_factory=Counter)

    @property
    def model(self) -> str | None:
        """The model that writes; None: rules do."""
        return None if self.thinker is None else self.thinker.name

    async def word(self, cluster: Cluster, draft: Insight) -> ClusterInsights:
        """The model's words for the rule's insight, and its recommendation, if it has one."""
        if self.thinker is None:
            return ClusterInsights([draft])
        shown = cluster.memories[-MAX_MEMORIES:]
        try:
            written = await self.thinker.ask(insight_prompt([m.content for m in shown], draft.text))
        except Silent as silent:
            self.by_rule[silent.reason] += 1
            return ClusterInsights([draft])
        insights = [replace(draft, text=written.text)]
        if written.recommendation:
            insights.append(replace(draft, category="recommendation", text=written.recommendation))
        causes = [
            Cause(shown[effect].id, shown[cause].id, strength) for cause, effect, strength in written.causal
        ]
        return ClusterInsights(insights, causes, self.thinker.name)
