"""The signs in English: after I, my, or the name of somebody known, the verbs and nouns that say something lasting.

They are compared with a clause whose "we" is "I", whose contractions are written out and that has no adverb after its subject.
The first that gives a fact counts.
"""

from __future__ import annotations

import re

from memory.facts import people
from memory.facts import readings as read
from memory.facts.dates import names_a_date
from memory.facts.draft import CAPITALISED, NAME, Draft, Sign, cut, cut_long, sign
from memory.facts.wording import normalised
from memory.facts.words import CONDITIONS, DIETS, ILLNESSES, KIN, LANGUAGES, LIVING

_V = r"(?P<v>.+)$"
_NO_LONGER = r"no longer|any ?more"
_PLANNED = "plan,goal,routine,decision,learning"
_HAD = "taste,use,medicine,own,have,drives,food,hobby,routine,prefer,favourite,health"
_DIETS = "|".join(DIETS)
_BEGINS = r"(?:start(?:ed|ing)?|join(?:ed|ing)?|got hired|was hired|beg[ia]n|accepted an offer|got a new job|beginning)"
SIGNS: tuple[Sign, ...] = (
    # Corrections and endings first: they would be read as statements.
    sign("", r"(?:(?:it|they|that)(?:'s| is| has| have| was| got)? ?(?:been |got |was )?(?:moved|rescheduled|postponed|pushed"
        r"|changed)(?: it)?(?: back| forward)?(?: to| until)?|(?:he|she|they|it)(?:'s|'re| is| are) (?:now )?(?:coming"
        r"|arriving|visiting|leaving)"
         rf"|it is|its|it's|i meant|i mean|make (?:it|that)|I moved it to)(?: now)?\s+{_V}", read.correction),
    sign("", r"(?P<v>(?:on )?the \d{1,2}(?:st|nd|rd|th)(?: of \w+)?)$", read.correction),
    sign("", r"(?:no more|forget(?: about)?|scratch) (?!than\b)" + _V, read.ends()),
    sign("", r"(?:my |the |our )?(?P<v>[\w' -]{2,50}?)(?: trip| plan)? (?:fell through|(?:is not|isn't) happening|didn't work"
        r" out|(?:is|are|was|got|has been|have been|'s|'s been) (?:just )?(?:cancell?ed|called off|off(?=$| now)|no longer"
        r" happening))\b",
         read.ends(_PLANNED)),
    sign("", r"I (?:have )?(?:cancell?ed|called off) (?:my |the |our )?" + _V, read.ends(_PLANNED)),
    sign("", r"my (?P<v>[\w' -]{2,40}?) (?:is|are) (?:fine|better|healed|ok|okay|back to normal|all good) (?:again|now)",
         read.ends("health")),
    sign("", r"I (?:have )?left (?=(?-i:[A-Z])[\w' -]{2,40}$)" + _V, read.ends("employer,study")),
    sign("", r"I (?:have )?(?:broken?|split) up with " + _V, read.ends("person,have,marital status")),
    sign("", r"I (?:have )?(?:quit (?=(?-i:[A-Z]))|got rid of |(?:dropped|got) out of |am (?:done|finished|through) with"
        r" )" + _V,
         read.ends()),
    sign("", r"(?:I am )?(?:no longer|not) (?:(?:live|living|based) )?(?:in|at|near|on|with) (?P<v>[^,]+?)(?: any ?more\b|$)",
         read.ends("home,employer,study,medicine", if_said=_NO_LONGER)),
    sign("", r"I (?:no longer|do not|don't) (?:live|work|study|play|teach|train|go|volunteer) (?:at |for |in |with |to"
        r" )?(?:the )?(?P<v>[^,]+?)(?: any"
        r" ?more)?(?:,.*)?$", read.ends("home,employer,job,study,hobby,routine,learning", if_said=_NO_LONGER)),
    sign("", r"I (?:no longer|do not|don't) (?:really )?(?:like|love|enjoy|use|take|have|own|drive|want|need)"
         r" (?P<v>[^,]+?)(?: any ?more)?(?:,.*)?$", read.ends(_HAD, if_said=_NO_LONGER)),
    sign("", r"I am (?:no longer|not) (?!allergic)(?:an? )?(?P<v>[\w -]{3,30}?)(?: any ?more)?$",
         read.ends("diet,job,medicine,health,marital status,study,learning", if_said=_NO_LONGER)),
    sign("use", r"I (?:have )?(?:switched|changed|moved|migrated) from (?P<old>[\w .'+#-]{1,40}?) to " + _V, read.instead),
    # Who one is.
    sign("name", rf"my (?:first |full |last |real )?name(?:'s| is) (?P<v>{NAME.replace('(?-i:', '(?i:')})(?=$|[,.!]|\sand"
        rf"|\sbut)", read.name),
    sign("name", rf"(?:I am|[Tt]his is) (?P<v>{NAME})(?=$|,| and | but | by the way| btw| from | here\b| -)", read.name),
    sign("nickname", r"(?:please |you can |just |people )?(?:everyone |everybody |friends |people |they )?calls? me"
        r" (?P<v>(?-i:[A-Z])[\w'-]+|[a-z]+(?= instead))(?=$|\W*$|,| everybody| everyone| instead| from"
        r" now)", preference=True, say="I like to be called {v}"),
    sign("nickname", r"I go by (?P<v>(?-i:[A-Z])[\w'-]+)", preference=True, say="I like to be called {v}"),
    sign("age", r"I am (?P<v>[89]|[1-9]\d|10\d)(?: years old| years of age| yrs old| y/?o)?(?=$|,| and\b| but\b| now\b|"
        r" so\b)", say="I am {v} years old"),
    sign("age", r"I (?:just )?turned (?P<v>[89]|[1-9]\d|10\d)\b(?! \w+ (?:in|back|around))", say="I am {v} years old"),
    sign("birthday", r"my (?:birthday|bday|b-day)(?:'s| is)(?: on)?(?: the)? " + _V, say="my birthday is {v}",
         must=rf"\d|(?i:{read.DAYS}|tomorrow|today)"),
    sign("born", r"I was born (?:and raised )?(?P<v>(?:on|in) .+)$", past=True, must=r"\d|[A-Z\u00c0-\u00de]"),
    sign("origin", r"I (?:come|grew up|hail)(?: from| in) " + _V, past=True, must=r"[A-Z\u00c0-\u00de]"),
    sign("origin", r"I (?:am )?from " + _V, past=True, must=r"^(?:the )?[A-Z\u00c0-\u00de]"),
    # Home, work, study.
    sign("home", r"I (?:am |have )?(?:been )?(?P<verb>live|living|lived|based|reside|residing)(?: now| here| currently)?"
         rf" (?:in|near|outside(?: of)?|at) {_V}", read.home),
    sign("home", rf"I (?:have )?(?P<verb>moved|relocated)(?: back| over| away| here| house)? (?:to|into) {_V}", read.home),
    sign("lived", rf"I used to live (?:in|near) {_V}", many=True, past=True, must=r"[A-Z\u00c0-\u00de]"),
    sign("attribute:time zone", r"I am in (?P<v>(?:UTC|GMT|CET|EST|PST)\S*)", say="my time zone is {v}"),
    sign("job", rf"I work as (?:part.time |full.time )?{_V}", read.job),
    sign("employer", r"I (?:am |have been )?(?:work|working)(?: part.time| full.time| now)?(?P<verb>$^)? (?:at|for)"
        r" " + _V, read.employer),
    sign("employer", rf"I (?:am |have |will be )?(?:just )?(?P<verb>{_BEGINS})(?: a new job| work| working| my new job)?"
        rf" (?:at|by|with) "
         r"(?P<v>(?-i:(?:the )?[A-Z0-9]|(?<=working at )an? ).+)$", read.employer),
    sign("employer", r"I (?:have |just )*(?P<verb>got|found|landed|took|have|was offered|accepted) (?:an? |the )?(?:[\w-]+"
        r" ){0,2}?(?:job|position|gig|internship|apprenticeship|role) (?:at|in|with|for) " + _V, read.employer),
    sign("employer", r"I (?:have )?(?:just |recently )?(?P<v>(?:quit|left|lost|resigned from|handed in|got) (?:my (?:old"
         r" )?(?:job|notice|resignation)\b(?! \w+ing| interview| notes| \w+ notes)|fired|laid off|made"
         r" redundant).*)$", past=True),
    sign("employer", r"I (?P<v>(?:was|have been|got) (?:fired|laid off|made redundant).*)$", past=True),
    sign("job", r"I (?:have )?(?:just |recently )?(?:got|been|was) promoted(?P<v> to .+)$", past=True),
    sign("job", r"I am (?:the |a |an |our )?(?P<v>(?:ceo|cto|cfo|head|director|founder|co-founder|owner|manager|captain"
        r"|chair\w*) (?:of|at) .+)$"),
    sign("job", r"I (?P<v>(?:run|own|manage|founded) (?:an?|my own|the) .*(?:shop|business|company|start-?up|restaurant"
        r"|caf[eé]|bar|farm|studio|agency|bakery|store|practice|salon|hotel|charity|blog|podcast|channel).*)$"),
    sign("job", r"I am (?P<v>(?:retired|unemployed|self-employed|freelancing|freelance|between jobs|on (?:parental|maternity"
        r"|sick) leave))\b"),
    sign("job", r"I (?P<v>teach (?!myself|you|him|her|them|how|people|to).+)$"),
    sign("study", r"I (?:am )?study(?:ing)? (?P<v>(?!for\b|hard|here|a lot|at home|every|now|it\b|this|that).+)$",
         say="I study {v}"),
    sign("study", r"I am (?P<v>an? (?:[\w-]+ )?(?:student|phd student|freshman|sophomore|senior|junior) (?:at|in|of) .+)$"),
    sign("graduated", r"I (?:have )?(?:just )?(?P<v>graduated (?:from|in|with) .+)$", past=True),
    sign("speaks", rf"I (?:can )?speak (?:fluent |some |a (?:little|bit of) |native )?(?P<v>(?:{'|'.join(LANGUAGES)})\b.*)$"),
    sign("study", r"I am doing (?P<v>(?:an?|my) (?:phd|masters?|master's|degree|bachelor'?s?|apprenticeship|msc|ma"
        r"|bsc)\b.*)$"),
    sign("learning", r"I (?:am|have been) (?P<v>learning (?!how|the |as |from|a lot|about|so much|that|more"
        r"|this).+)$", many=True),
    # Health and food.
    sign("diet", rf"I have been (?P<v>(?:a )?(?:{_DIETS}) .*)$"),
    sign("diet", rf"(?:I am )?(?:an? )?(?:strict )?(?P<v>{_DIETS})(?=$|, not|\s(?:now|since|and|but|these|again|for)\b|,|"
        rf" so\b)", say="my diet is {v}"),
    sign("allergy", rf"I am (?:not |no longer )?(?:\w+ly )?allergic to {_V}", read.allergy),
    sign("allergy", r"I (?:do )?have (?:an? )?(?:severe |bad |mild |serious |strong )?(?P<v>[\w-]+(?: [\w-]+)?) allerg(?:y"
        r"|ies)\b", read.allergy),
    sign("health", r"I (?:am|have been) (?P<v>(?:sober|teetotal|clean) (?:for|since).*)$"),
    sign("health", rf"I am (?:an? )?(?P<v>(?:type [12] )?(?P<kind>{'|'.join(CONDITIONS)})\b(?! (?:to|without|by"
        rf"|from)\b).*)$", many=True),
    sign("health", r"I (?:(?:do )?have|suffer from|was (?:just |recently )?diagnosed with|have been diagnosed with|have had) "
         rf"(?P<v>(?:an? )?(?:chronic |severe |mild |type [12] |bad )?(?P<kind>{'|'.join(ILLNESSES)})\b.*)$", many=True),
    sign("health", r"I (?:have )?(?:broke|broken|fractured|sprained|tore|twisted|injured|dislocated) my (?P<v>(?:\w+"
        r" )?(?P<kind>wrist|ankle|arm|leg|foot|toe|finger|thumb|hand|hip|ribs?|nose|collarbone|shoulder|knee|elbow|jaw|neck"
        r"|tooth|hamstring)\b.*)$", many=True),
    sign("medicine", r"I (?:am )?(?P<verb>take|taking|on) (?P<v>[a-z-]{4,}(?: [a-z]+)? ?(?P<often>(?:every|daily|twice|once"
        r"|for my|each)\b).*)$",
         lambda m: () if re.match(r"(?:care|them|that|this|time|notes|photos|pictures|walks|lunch|part|over|turns|a"
         r" )\b", m["v"]) else read.medicine(m)),
    sign("medicine", r"I am (?:now )?on (?P<v>(?:[a-z-]{4,})(?: \w+)? now)(?P<often>$)",
         lambda m: () if re.match(r"(?:holidays?|vacation|leave|fire|call|duty|board|track|time|hold|it|strike|course|my|the"
         r"|a|top|page|air|stage|foot|medication|sale|target|site|line|mute|edge|break)\b", m["v"])
         else (Draft(f"medicine:{normalised(m['v'])}", m["v"], m.string, 0.7),)),
    sign("food", r"I (?:can't|cannot|can not) (?P<v>(?:eat|tolerate|drink|digest|have) (?!and |from |it|that|this|them"
        r"|anything|any"
        r" ?more|here|now|another|much|while|enough|until|too|you|both).+)$", many=True),
    sign("food", r"I (?:can't|cannot|can not) do (?P<v>(?!it|that|this|them|anything|any|much|mondays?|tues|wednes|thurs|fri"
        r"|satur|sun|tomorrow|today|tonight|maths|this|both|more|what|so|with|my|the|all|a )[a-z]+(?: [a-z]+)?)(?=$"
        r"|,)", many=True),
    sign("food", r"I (?:have )?(?P<verb>don't|do not|never|no longer|stopped|quit|gave up|given up|am off) (?P<v>(?:(?:eat"
         r"|drink|smok)(?:e|ing)?(?: .+)?|(?:meat|fish|dairy|sugar|alcohol|coffee|gluten|booze|cigarettes|wine|beer"
         r"|bread)\b.*))$",
         read.abstains),
    sign("ended", r"I (?:have )?(?:quit|gave up|given up|stopped|dropped) (?P<v>[\w' -]{3,30})$", read.ends()),
    # Family, animals, things.
    sign("marital status", rf"I am (?P<v>(?:married|divorced|single|engaged|widowed|separated|a widow(?:er)?|a single (?:mom"
        rf"|mum|dad|parent|mother|father))\b(?!-| (?:in|with|by|from|to (?:my|the|this|a))\b)(?: to {NAME})?)"),
    sign("marital status", r"I (?:have )?(?:just )?got (?P<v>(?:married|engaged|divorced)\b.*)$", past=True),
    sign("plan", r"(?:I am|my wife is|my partner is) (?P<topic>expecting (?:a baby|our (?:first|second|third)[\w ]*|my first"
        r"|twins))(?P<lasting>.*)$",
         lambda m: (Draft("plan:baby", cut_long(m.string), cut_long(m.string), 0.85, topic="baby", lasting=True),)),
    sign("plan", r"(?:my |the |our )?(?P<topic>(?:second |first |third |new |other )?(?:one|baby|twins|child|kid)) (?:is|are)"
        r" due (?P<lasting>(?:in|on) .+)$",
         lambda m: (Draft("plan:baby", m["lasting"], f"my {m['topic']} is due"
         f" {cut(m['lasting'])}", topic="baby", lasting=True),)
         if names_a_date(m["lasting"]) else ()),
    sign("attribute", rf"(?:my (?:new |current |own )?|new )(?P<name>{'|'.join(read.ATTRIBUTES)})"
         r"(?:'s| is| are|:| (?:has )?changed,? (?:it's|it is|to) (?P<changed>.+)|(?=$)) ?(?P<v>.*)$", read.attribute),
    sign("person", r"my (?P<lead>(?:older |younger |little |big |eldest |youngest |twin |elder |late |best |newborn )?)"
         rf"(?P<who>{KIN})(?P<name>,? {CAPITALISED}?(?='s |\s|,|$))?,?(?P<rest>(?:'s| ).*)?$", people.somebody),
    sign("have", rf"I (?P<verb>have|adopted|got|have adopted|have got|own)(?P<count> {people.COUNTS}) (?:[\w-]+"
        rf" ){{0,3}}?(?P<kind>{'|'.join(LIVING)})\b(?! in )", people.has),
    sign("attribute", rf"my (?P<name>(?!name\b)[\w -]{{2,30}}?)(?:'s| is) (?:called|named) (?P<v>{NAME})", lambda m: (
        Draft(f"attribute:{normalised(m['name'])} name", m["v"], f"my {m['name']} is called {m['v']}"),)),
    sign("own", r"I (?:have )?(?P<verb>own|drive|ride|bought|got|adopted|purchased|inherited|sold|crashed|have)(?: myself|"
        r" us)? (?P<v>(?:an?|my first|our first|my|our|the|two|three|\d) .+)$", read.possession),
    sign("favourite", r"my favou?rite (?P<name>[\w-]+(?: [\w-]+)?) (?:is|are|was always|will always be|has always been"
        r"|(?=used to be)) ?" + _V,
         read.favourite),
    # Plans.
    sign("plan", rf"(?:my|the|our) (?P<topic>(?:[\w'-]+ ){{0,4}}?{read.APPOINTMENTS}(?: (?:with|to|for|at|about|in)"
        rf" (?!(?:{read.DAYS})\b)(?:the |my |a )?[\w'-]+(?: [A-Z][\w'-]+)?)??)(?: appointment| meeting)?(?:'s| is| are| was|"
        rf" leaves| starts| begins| got| has been| has)? {read.MOVED}(?:to |for )?{read.WHEN}", read.plan),
    sign("plan", rf"(?P<topic>(?:[\w'-]+ ){{0,2}}{read.APPOINTMENTS})(?:'s| is| has been)"
        rf" {read.MOVED}{read.WHEN}", read.plan),
    sign("plan", rf"(?:(?P<when>(?:on |next |this )?(?:tomorrow|today|tonight|{read.DAYS})(?: (?:morning|afternoon"
        rf"|evening))?),? )?(?P<body>I have (?:got )?(?:my |an? |the |another )?(?P<topic>(?:[\w'-]+"
        rf" ){{0,2}}?{read.APPOINTMENTS}\b(?: (?:with|to|for|at|about|in) (?!(?:{read.DAYS})\b)(?:the |my |a |an"
        rf" )?[A-Za-z][\w'-]*(?: [A-Z][\w'-]+)?)?).*)$", read.plan),
    sign("plan", r"I am (?:running|seeing|meeting|giving|hosting|attending|presenting|performing|leaving|having (?=(?:an?|my"
        r"|our) ))(?!.*\b(?:today|yesterday|tonight|this)\b) ?(?P<topic>.+)$", read.plan),
    sign("plan", r"I am (?P<topic>getting married)(?P<lasting>.*)$",
         lambda m: (Draft("plan:wedding", m.string, cut_long(m.string), topic="wedding", lasting=True),)
         if names_a_date(m.string) else ()),
    sign("plan", r"I (?:am |will be )(?:going|flying|travelling|traveling|heading|driving|visiting)(?P<kind>$^)?(?: back|"
        r" over| on holiday)?(?: to)? "
         rf"(?P<topic>(?:the )?(?-i:[A-Z])[\w'-]*(?: {CAPITALISED})*)\b.*$",
         lambda m: tuple(Draft(f"plan:{d.topic}"
         f" trip", d.value, d.clause, 0.8, topic=f"{d.topic} trip") for d in read.plan(m))),
    sign("plan", rf"I am (?:moving|relocating) to (?P<topic>(?:the )?{NAME})\b.*$",
         lambda m: (Draft("plan:move", m.string, cut_long(m.string), topic="move"),)),
    # What one likes, does and has decided.
    sign("taste", r"I am (?:an? (?:big |huge |massive )?fan of|(?:really |very )?into|passionate about|(?:afraid|scared"
        r"|terrified|fond) of|crazy about|dreading|obsessed with|not (?:an? )?(?:big )?fan of|not into|not a)"
        r" " + _V, read.taste),
    sign("taste", rf"I (?:do |did )?(?:love|like|enjoy|prefer|hate|dislike|can't stand|cannot stand|adore|despise|detest"
         rf"|don't (?:really )?(?:like|enjoy)|do not (?:like|enjoy)) {_V}", read.taste),
    sign("request", r"(?P<lead>please (?:always|never|don't ever|keep|use|avoid|only|do not|don't)(?= (?:your|my|me|answer"
        r"|repl|metric|short|bullet|use|call|write|respon|speak|give|suggest|recommend|address|emoji|include|talk|\w+ units))"
        r" |always (?=answer|reply|respond|write|use|call|give|speak|address|start)|from now on,? (?:please )?|going"
        r" forward,? (?:please )?|in (?:the )?future,? (?:please )?|never (?=use|call|answer|write|give|suggest|recommend)"
        r"|please (?=(?:answer|reply|respond|speak|talk|write)(?: to me)? in \w+$)|keep (?=your (?:answers"
        r"|replies)))(?P<v>.+)$", read.request),
    sign("use", r"I (?:mostly |mainly |always |am )?us(?:e|ing) " + _V, many=True, must=rf"^(?:an? |the"
        rf" )?{CAPITALISED.replace('(?-i:', '(?:')}",
         preference=True),
    sign("hobby", r"I (?:often )?(?P<v>(?:(?:play|practise|practice|collect)|do (?=yoga|pilates|karate|judo|crossfit|ballet"
        r"|pottery|boxing)) (?!it\b|with|around|that|this|them|my|not|the same|a lot|so|along|dumb|devil|games? with|along"
        r"|fair|safe|for\b|by\b|second|hooky|possum|cupid|catch|nice|cool|dead|down|hard)[\w' -]{3,40})(?=$|,)",
         many=True),
    sign("routine", r"I (?P<v>(?:live (?:alone|with (?:my|an?|two|three))|work (?:nights|shifts|remotely|weekends|from"
        r" home(?=$))|volunteer|coach|sing in|commute|foster|wear (?:\w+ )?(?:glasses|contacts|lenses|hearing aids?|braces"
        r"|dentures))\b.*)$", many=True),
    sign("event", r"I (?:have )?(?P<v>(?:passed|failed) my (?:[\w-]+ ){0,2}(?:test|exams?|finals?|course|thesis|viva"
        r"|a.levels|boards|licen[cs]e)\b.*)$", many=True, past=True),
    sign("routine", r"I (?P<v>(?:have|go to|attend|take) (?:an? |my )?[\w' -]{3,40} every (?:\w+day|week|morning|month"
        r"|evening)s?\b.*)$", many=True),
    sign("decision", r"I (?:have )?(?:finally )?(?:decided|agreed|made up my minds?)(?P<lead>:?) (?P<v>(?:to|on|against|that"
        r"|not to|for|in favou?r of) .+)$",
         many=True, past=True, say="I have decided {v}"),
    sign("decision", rf"(?:let's go with|I will (?:go (?:with|for)|use(?= (?-i:[A-Z])))|I (?:have )?(?:chose|chosen"
        rf"|picked|went with)|I am going with) {_V}", read.decision),
    sign("decision", r"I (?:have )?(?:switched|moved|migrated) to (?P<v>(?-i:[A-Z])\w+.*)$", past=True, many=True),
    sign("goal", r"I (?:am|have been) (?:currently )?(?P<v>(?:training for|saving (?:up )?for|preparing for|planning (?:a|an"
        r"|my|our)|trying to (?!\w+ (?:it|this|that)\b)\w+ (?:more|less)|writing (?:a|my) (?:book|novel|thesis|dissertation))"
        r" ?.*)$", many=True),
    sign("job", rf"I (?:am|(?P<past>was)) (?:now )?(?:an? ){_V}", read.occupation),
    sign("person", r"(?P<name>(?-i:[A-Z\u00c0-\u00de][a-z\u00c0-\u017f]+))(?P<rest>(?:'s| ).+)$", people.somebody),
)  # fmt: skip
