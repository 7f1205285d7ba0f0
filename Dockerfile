# memoryd as an image, from a checkout: docker build -t memoryd .
#
#     docker run --init -e DATABASE_URL=postgresql://memoryd:secret@db.internal/app memoryd
#     docker run --rm   -e DATABASE_URL=... memoryd doctor
#
# Without DATABASE_URL it runs its own Postgres, with its data in the volume. See docs/operations.md.

FROM python:3.12-slim AS build

WORKDIR /src
COPY pyproject.toml constraints.txt install.py README.md LICENSE ./
COPY docs/glossary.md docs/glossary.md
COPY daemon daemon
COPY handlers handlers
COPY memory memory
COPY memoryd memoryd
COPY migrations migrations
COPY plugins plugins
COPY providers providers
RUN python -m venv /opt/memoryd \
    && /opt/memoryd/bin/python install.py constraints.txt '.[documents,embedded,metrics,web]' --no-cache-dir


FROM python:3.12-slim

# A user without rights: it owns the data folder and nothing else.
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/memoryd --create-home --shell /usr/sbin/nologin memoryd
COPY --from=build /opt/memoryd /opt/memoryd

ENV PATH=/opt/memoryd/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    MEMORYD_DATA_DIR=/var/lib/memoryd/data \
    MEMORYD_HTTP=9470

USER memoryd
WORKDIR /var/lib/memoryd
VOLUME /var/lib/memoryd

# Healthy while its daemon answers, the database answers it, and no job waits for long.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["memoryd", "health", "--ready"]

ENTRYPOINT ["memoryd"]
CMD ["run"]
