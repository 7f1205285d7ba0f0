"""The words by which rules are compared: what each does in a sentence, and of which kind a value is.

English, German, Spanish, French and Chinese.
"""

# ruff: noqa: RUF001 - Chinese has its own punctuation

from __future__ import annotations

import re
from functools import lru_cache

from plugins.hooks.stating import LONGEST_PHRASE, SENSES

LONGEST = 300
"""Characters of a rule that are compared."""
WORD = (
    r"[\u3040-\u30ff\u4e00-\u9fff]|`[\w./-]{1,99}`|(?:[cdjlmnst]|qu)'|\d+(?:[.,]\d+)*(?!\w)|[./~]?[^\W_](?:[\w@/.:+#'-]*[\w/+#])?"
    r"|[,，;；:：。()–—!！]|-(?= )"
)
ENDING = r"(?:ations?|ings?|e[srnmdz]|[ao]s|[aei]r|[sneoa])\Z"
MOST_KEPT = 4096
SHORTEST = 3
"""Letters of a word that are left without its ending."""
PATH = r"[\w~.@-]*/\S*|\.?[\w-]+\.[a-z]{1,4}"
NAME = r"(?=.*\d)(?=.*[a-z])[\w.-]+|\w+[_.]\w[\w.-]*"
"""What is a name by its form: zebra9, main_db."""

ROLES = {
    "": """
        the a an there any some that which by own as be code_base directly simply really feel_free_to and_then let's do does
        can may fine ok okay allowed permitted everything no_problem file files get gets repo repository project codebase of
        indent indents indented indentation einrücken eingerückt sangrar indenter 缩进
        bitte der die das den dem des ein eine einen einem einer man direkt einfach doch mal sich zum zur im am von kann
        können darf dürfen ordnung erlaubt kein_problem tun alles datei dateien projekt wird werden el la los las un una
        unos unas lo se al de del que le les puede puedes bien vale permitido sin_problema sin_problemas haz haga hagas
        hacer todo archivos repositorio proyecto van_a une du l' c' d' s' qu' ce directement peut peux permis autorisé
        sans_problème pas_de_souci fais faire tout fichiers dépôt projet 的 了 请 都 在 把 们 个 个项目 个仓库 仓库 项目
        直接 可以 允许 没问题 做 文件 permitidos permitida permitidas autorisés autorisée autorisées kannst könnt darfst dürft
    """,
    "and": "and or und oder y e o u et ou 和 或",
    "not": """
        not no never dont don't doesn't doesnt isn't isnt aren't arent can't cant cannot won't mustn't shouldn't no_one
        nothing none nie niemals nicht kein keine keinen keiner keinem keines nichts nunca jamás nada ningún ninguna jamais
        pas aucun aucune rien 不 别 勿 没 不要 不能 不得 绝不 永不 永远不 千万别 千万不要 不用 不可以 不准
    """,
    "without": """
        without ohne sin sans avoid vermeide vermeiden evita evitar évite éviter forbidden banned prohibited disallowed
        verboten prohibido interdit 禁止 避免 不带 forget prohibidos prohibida prohibidas interdits interdite interdites
    """,
    "instead": """
        instead_of rather_than statt anstatt anstelle en_vez_de en_lugar_de au_lieu_de au_lieu_d' plutôt_que plutôt_qu'
        而不是 而非
    """,
    "ended": """
        no_longer no_more stop stopped nicht_mehr ya_no deja_de dejad_de dejamos_de arrête_de arrête_d' 不再 别再 不要再
    """,
    "also": "also too as_well additionally auch también además aussi également 也 还",
    "any more": "anymore any_more any_longer mehr",
    "ne": "ne n'",
    "plus": "plus",
    "moved": "moved switched migrated switch gewechselt umgestiegen cambiamos pasamos passons passés passé",
    "from": "from off away_from weg_von",
    "to": "to onto into zu nach hacia à au aux 到",
    "use": """
        use uses used using prefer nutze nutzen nutzt benutze benutzen benutzt verwende verwenden verwendet nimm nehmen usa
        usar usamos utiliza utilizamos utilizar prefiere utilise utilisons utiliser utilisez préfère returns return
        speak speaks liefert devuelve renvoie 返回 用 使用 采用 改用 换成
        改成
    """,
    "run": """
        run runs running ausführen laufen läuft starte starten lanza lanzan lanzar ejecuta ejecutar corre corren lance
        lancer exécute exécuter tourne tournent 跑 运行 执行
    """,
    "write": """
        write writes written schreib schreibe schreiben geschrieben escribe escriben escribir escritos écris écrire écrits
        写
    """,
    "is": "is are it's we're i'm stay stays ist sind bleibt bleiben es está están son est sont reste restent 是 为 保持",
    "lives": """
        live lives sit sits kept stored liegt liegen steht stehen vive viven guarda guardan se_trouve se_trouvent trouve
        trouvent 放在 位于 存放在
    """,
    "goes": "go goes put belong belongs gehört gehören kommt kommen lege va van pon vont mets mettre 放到 放",
    "called": "called named heißt heißen genannt llama llaman llamada appelle appellent nommé 叫 叫做 名为 命名为",
    "with": "with via through mit über con mediante avec",
    "in": "in on at auf en sobre sur dans inside 里",
    "for": """
        for when whenever if unless before after during per within under between against für wenn falls vor nach bei beim
        pro während unter zwischen para cuando si antes_de después_de durante bajo por pour quand avant après pendant sous
        par chez 对 给 时 前 后 如果 之前 之后
    """,
    "limit": """
        more_than over exceed above longer_than at_most max maximum höchstens mehr_als maximal más_de máximo plus_de
        dépasser 超过 最多 大于
    """,
    "stop": """
        because since so_that otherwise weil damit sonst denn porque así_que parce_que car sinon 因为 否则 even_if
        even_though auch_wenn aunque même_si 即使 哪怕
    """,
    "clause": ", ， ; ； : ： 。 ( ) – — - ! ！ but sondern sino pero aber mais 而是 但",
}
"""Words that are no content, by what they do; a phrase is joined by "_"."""
SENSES_OF_NOTHING = "ALWAYS HENCE REMEMBER WE OUR HERE NOW THIS MUST ONLY ALL YOU I"
CONTENT = (
    "前端 后端 后台 前缀 后缀 级别 类别 分别 区别 特别 不同 不变 超时 时间 小时 定时 时区 用户 应用 调用 引用 用例 通用 对象 "
    "行为 作为 开放 写入"
)
"""Words with a sign that else is none."""
TOOLS = """
    npm pnpm yarn bun;
    jest vitest mocha jasmine karma;
    pytest unittest nose;
    junit kotest testng spek;
    rspec minitest;
    cypress playwright selenium puppeteer testcafe;
    pip uv poetry pipenv conda pdm;
    mypy pyright;
    webpack vite parcel rspack;
    maven=mvn gradle bazel;
    axios ky;
    requests httpx aiohttp;
    moment dayjs date-fns luxon;
    structlog loguru;
    winston pino;
    black yapf;
    make; tox; nox; cargo; helm; kustomize; cmake; ninja; rake; phpunit; dotnet; ruff;
    flake8; pylint; prettier; eslint; biome; gofmt; ktlint; spotless; ant; sbt; esbuild; rollup; babel; tsc
"""
"""Tools by their kinds."""
VALUES = """
    english=englisch=englische=englischen=englischer=inglés=inglesa=anglais=anglaise=英文=英语
    german=deutsch=deutsche=deutschen=deutscher=alemán=allemand=allemande=德文=德语
    spanish=spanisch=español=castellano=espagnol=西班牙语 french=französisch=francés=français=française=法语=法文
    chinese=chinesisch=chino=chinois=中文=汉语 italian=italienisch=italiano=italien
    portuguese=portugiesisch=portugués=portugais dutch=niederländisch japanese=japanisch=japonés=japonais=日语=日文
    russian=russisch=ruso=russe polish=polnisch;
    tabs=tab=tabulatoren=tabulador=tabuladores=tabulaciones=tabulations=tabulation=制表符
    spaces=space=leerzeichen=espacios=espaces=espace=空格;
    utc=gmt cet cest pst local=local_time=lokale_zeit=lokaler_zeit=hora_local=heure_locale=本地时间;
    main master develop trunk;
    lf crlf;
    utf-8=utf8 latin-1=latin1=iso-8859-1 utf-16=utf16;
    json yaml=yml toml xml;
    markdown rst asciidoc;
    python golang rust java kotlin typescript=ts javascript=js ruby php swift bash perl;
    postgres=postgresql mysql mariadb sqlite mongodb;
    docker podman;
    terraform pulumi opentofu;
    redux zustand mobx jotai;
    react vue svelte angular;
    django flask fastapi;
    express fastify koa;
    github gitlab bitbucket;
    cents=cent=céntimos=centavos=centimes euros=euro dollars=dollar=dólares=美元 francs=franken;
    duze=duzen sieze=siezen;
    tutoie=tutoyer vouvoie=vouvoyer
"""
"""Values of a kind, of which one excludes the others, with their words in other languages; no kind of which both may hold."""
QUALITIES = """
    monday=mondays=montag=montags=lunes=lundi=周一 tuesday=tuesdays=dienstag=dienstags=martes=mardi=周二
    wednesday=wednesdays=mittwoch=mittwochs=miércoles=mercredi=周三
    thursday=thursdays=donnerstag=donnerstags=jueves=jeudi=周四 friday=fridays=freitag=freitags=viernes=vendredi=周五
    saturday=saturdays=samstag=sábado=samedi=周六 sunday=sundays=sonntag=domingo=dimanche=周日;
    single=einfache=einfachen=simples=simple=单引号 double=doppelte=doppelten=dobles=doble=doubles=双引号;
    camelcase=驼峰 snake_case=snakecase=下划线 kebab-case=kebabcase pascalcase;
    required=mandatory=pflicht=obligatorio=obligatoria=obligatoire=必填 optional=opcional=facultatif=optionnel=可选;
    short=brief=kurz=kurze=knapp=corto=corta=cortas=breve=breves=court=courte=courtes=concis=简短
    long=detailed=lang=lange=ausführlich=ausführliche=largo=larga=largas=detallado=détaillé=détaillées=longues=详细;
    small=klein=kleine=pequeño=pequeños=pequeña=pequeñas=petit=petits=petite=petites=小
    large=big=groß=große=grande=grandes=grand=grands=大;
    dark=dunkel=dunkle=oscuro=sombre=深色 light=hell=helle=claro=clair=浅色;
    enabled=aktiviert=activado=activé=开启 disabled=deaktiviert=desactivado=désactivé=关闭
"""
"""Values that also stand behind what has them: "keep answers short"."""
NUMBERS = """
    1=one=uno 2=two=zwei=dos=deux=两=二 3=three=drei=tres=trois=三 4=four=vier=cuatro=quatre=四 5=five=fünf=cinco=cinq=五
    6=six=sechs=seis=六 10=ten=zehn=diez=dix=十
"""


def parts_of(text: str) -> list[tuple[str, str]]:
    """The phrases of a rule: the role of each, and of content the word itself, without its ending."""
    known = _lexicon()[0]
    words = re.findall(
        WORD, re.sub("-(?:moi|nous|les?|la)(?!\\w)", "", text[:LONGEST].lower().replace("’", "'"))
    )
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        for end in range(min(len(words), at + LONGEST_PHRASE), at, -1):
            if part := known.get(" ".join(words[at:end])):
                parts.append(part)
                at = end
                break
        else:
            quoted = words[at].strip("`")
            part = known.get(quoted, ("", ""))
            parts.append(part if part[1] else ("content", _stem(quoted)))
            at += 1
    return parts


@lru_cache(MOST_KEPT)
def _stem(word: str) -> str:
    if not word.isalpha():
        return word
    for _ in range(2):
        short = re.sub(ENDING, "", word)
        word = short if len(short) >= SHORTEST else word
    word = re.sub("gu\\Z", "g", re.sub("qu\\Z", "c", word))  # "despliega", "despliegues"
    return word[:-1] if len(word) > SHORTEST and word[-1] == word[-2] else word


@lru_cache(MOST_KEPT)
def kind_of(word: str) -> str:
    """Of which kind a word is: "tool", "value" or "quality" with a number, by its form "number", "path" or "name", or ""."""
    if kind := _lexicon()[1].get(word):
        return kind
    if word[0].isdigit() and not re.search("[a-z]", word):
        return "number"
    return "path" if re.fullmatch(PATH, word) else "name" if re.fullmatch(NAME, word) else ""


@lru_cache
def _lexicon() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """What each phrase is, and the kind of each value."""
    known: dict[str, tuple[str, str]] = {}
    kinds: dict[str, str] = {}
    for sense in SENSES_OF_NOTHING.split():
        known |= dict.fromkeys(SENSES[sense].split("|"), ("", ""))
    for kind, families in (("tool", TOOLS), ("value", VALUES), ("quality", QUALITIES), ("number", NUMBERS)):
        for nth, family in enumerate(families.split(";")):
            for value in family.split():
                name, *others = value.split("=")
                kinds[name] = kind if kind == "number" else f"{kind} {nth}"
                known |= {_phrase(one): ("content", name) for one in (name, *others)}
                known |= {_phrase(one.replace("_", " ")): ("content", name) for one in others}
    known |= {_phrase(one): ("content", one) for one in CONTENT.split()}
    for role, words in ROLES.items():
        known |= {_phrase(one.replace("_", " ")): (role, "") for one in words.split()}
    return known, kinds


def _phrase(text: str) -> str:
    """As its words are joined when a rule is read."""
    return " ".join(re.findall(WORD, text)) if max(text) >= "\u3040" or "'" in text else text
