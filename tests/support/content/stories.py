"""Stories of agents whose task fails twice, beside a line that would help."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Story:
    """`known`: agent, kind, text. `tasks`: with what came of them. `helps`: a part of each line that every context needs."""

    known: tuple[tuple[str, str, str], ...]
    tasks: tuple[tuple[str, str], ...]
    later: tuple[str, ...]
    helps: tuple[str, ...]
    of_no_use: tuple[str, ...] = ()


REGISTRY = Story(
    (("_shared", "fact", "The staging registry only answers after: make registry-login"),),
    (
        (
            "deploy the staging server",
            "pushing image to the staging registry\nerror: registry refused the connection",
        ),
        ("deploy the staging server again", "error: registry refused the connection"),
    ),
    (
        "deploy the staging server a third time", "staging deployment please", "push the new image to staging",
        "why does the deploy to staging fail?", "try the staging deploy once more",
        "the staging deployment broke again, fix it", "roll out version 2.4 on the staging server", "release to staging",
    ),
    ("registry-login",),
)  # fmt: skip

STORIES = {
    "registry": REGISTRY,
    "what does not help": Story(
        (
            *REGISTRY.known,
            ("_shared", "fact", "The office closes at six on Fridays"),
            ("alice", "fact", "The coffee machine on floor two is broken"),
            ("_shared", "goal", "Hire two more engineers before summer"),
            ("_shared", "note", "Tom likes long walks with his dog"),
        ),
        REGISTRY.tasks,
        REGISTRY.later[:5],
        ("registry-login",),
        ("office closes", "coffee machine", "Hire two", "long walks"),
    ),
    "two lines": Story(
        (
            ("_shared", "fact", "Integration tests need a running redis: docker compose up redis"),
            ("alice", "fact", "Integration tests must be run with LANG=C or the date parser fails"),
            ("_shared", "fact", "The marketing site is built with Hugo"),
        ),
        (
            ("run the integration tests", "collected 120 items\nE  ConnectionError: redis://localhost:6379 refused"),
            ("run the integration tests again", "E  ConnectionError: redis://localhost:6379 refused"),
        ),
        (
            "run the integration tests a third time", "check that the integration suite passes",
            "why do the integration tests fail?", "integration tests please",
        ),
        ("compose up redis", "LANG=C"),
        ("Hugo",),
    ),
    "training": Story(
        (("_shared", "fact", "The training cluster frees GPUs only when the notebook kernels are stopped: nbstop --all"),),
        (
            ("train the ranking model on the cluster", "allocating 4 GPUs\nRuntimeError: CUDA out of memory"),
            ("train the ranking model on the cluster again", "RuntimeError: CUDA out of memory"),
        ),
        (
            "train the ranking model a third time", "start another training run of the ranking model",
            "why does the training crash?", "retrain the model on the cluster",
        ),
        ("nbstop",),
    ),
    "German": Story(
        (("_shared", "fact", "Die Testdatenbank antwortet erst nach: make vpn-start"),),
        (
            ("spiele die Testdatenbank neu ein", "verbinde mit testdb.intern\nFehler: Verbindung zur Testdatenbank abgelehnt"),
            ("spiele die Testdatenbank noch einmal ein", "Fehler: Verbindung zur Testdatenbank abgelehnt"),
        ),
        (
            "spiele die Testdatenbank ein drittes Mal ein", "Testdatenbank bitte neu aufsetzen",
            "warum schlägt das Einspielen der Testdatenbank fehl?", "stelle die Testdatenbank wieder her",
        ),
        ("vpn-start",),
    ),
    "Spanish": Story(
        (("_shared", "fact", "El servidor de correo solo acepta envíos después de: make mail-login"),),
        (
            (
                "envía el boletín por el servidor de correo",
                "conectando con smtp\nerror: el servidor de correo rechazó la conexión",
            ),
            ("envía el boletín otra vez por el servidor de correo", "error: el servidor de correo rechazó la conexión"),
        ),
        (
            "envía el boletín una tercera vez", "manda el boletín por correo, por favor",
            "¿por qué falla el envío del boletín por el servidor de correo?", "intenta el envío del correo una vez más",
        ),
        ("mail-login",),
    ),
    "Chinese": Story(
        (("_shared", "fact", "测试服务器只有在执行 make vpn-login 之后才会响应"),),
        (
            ("部署测试服务器", "正在推送镜像到测试服务器\n错误：连接被拒绝"),  # noqa: RUF001
            ("再次部署测试服务器", "错误：连接被拒绝"),  # noqa: RUF001
        ),
        ("第三次部署测试服务器", "请部署到测试服务器", "为什么部署到测试服务器会失败？", "再试一次部署测试服务器"),  # noqa: RUF001
        ("vpn-login",),
    ),
}  # fmt: skip
