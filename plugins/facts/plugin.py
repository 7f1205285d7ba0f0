"""The plugin facts: what is read in messages.

Its SQL is migrations/functions/memories/facts.sql and patterns/; it stays in migrations/, where all SQL has one order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from daemon.plugins import Check, Core, Examination, Plugin, split_advice
from daemon.queue.topic import Topic
from daemon.schedule import Tick
from daemon.settings import Settings
from plugins.facts.settings import Facts, check_facts, read_in_messages

READ_EVERY_SECONDS = 5.0


class FactsInMessages(Plugin):
    name = "facts"
    settings = (Facts,)

    def topics(self, core: Core) -> Iterable[Topic]:
        from plugins.facts.facts import FactsHandler

        # One stretch at a time: a batch waits for a language model. Lanes: a user's conversations are read in order.
        yield Topic(
            "facts",
            FactsHandler(
                reader=core.database,
                embedding=core.embedding,
                thinker=core.thinker if read_in_messages(core.settings) == "model" else None,
                logger=core.logger,
            ),
            batch=1,
            parallel=4,
            lanes=1,
            follow_ups=("index",),
            counted_as="read_for_facts",
        )

    def ticks(self, core: Core) -> Iterable[Tick]:
        from plugins.facts.reading import Reading

        if core.thinker is not None:
            reading = Reading(core.database, core.thinker, logger=core.logger)
            yield Tick("queue_stretches", READ_EVERY_SECONDS, reading.tick)

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        """A language model that is wanted and not named."""
        try:
            check_facts(examination.settings)
        except ValueError as error:
            yield Check("language model", "problem", *split_advice(str(error)))

    def prepare(self, settings: Settings) -> None:
        check_facts(settings)

    def database_settings(self, settings: Settings) -> Mapping[str, object]:
        return {"facts": read_in_messages(settings)}

    def switches(self, settings: Settings) -> Mapping[str, object]:
        return {"facts": read_in_messages(settings)}


PLUGIN = FactsInMessages()
