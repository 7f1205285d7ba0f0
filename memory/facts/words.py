"""Closed lists of English words that the rules for facts need."""

from __future__ import annotations

import re
from collections.abc import Mapping

NATIONALITIES = frozenset({
    "american", "argentinian", "australian", "austrian", "belgian", "brazilian", "british", "bulgarian", "canadian",
    "chilean", "chinese", "colombian", "croatian", "cuban", "czech", "danish", "dutch", "egyptian", "english",
    "estonian", "ethiopian", "european", "finnish", "french", "german", "ghanaian", "greek", "hungarian", "icelandic",
    "indian", "indonesian", "iranian", "iraqi", "irish", "israeli", "italian", "japanese", "jewish", "jordanian",
    "kenyan", "korean", "latvian", "lebanese", "lithuanian", "malaysian", "mexican", "moroccan", "muslim", "nepali",
    "nigerian", "norwegian", "pakistani", "peruvian", "polish", "portuguese", "romanian", "russian", "scottish",
    "serbian", "slovak", "slovenian", "spanish", "swedish", "swiss", "syrian", "taiwanese", "thai", "tunisian",
    "turkish", "ukrainian", "vietnamese", "welsh", "catholic", "christian", "buddhist", "hindu", "asian", "african",
    "latino", "latina",
})  # fmt: skip
LANGUAGES = (
    "english", "german", "french", "spanish", "portuguese", "italian", "dutch", "catalan", "polish", "russian",
    "ukrainian", "turkish", "arabic", "persian", "farsi", "hindi", "urdu", "bengali", "tamil", "mandarin", "cantonese",
    "chinese", "japanese", "korean", "vietnamese", "thai", "swedish", "norwegian", "danish", "finnish", "greek",
    "hebrew", "hungarian", "czech", "slovak", "romanian", "bulgarian", "serbian", "croatian", "irish", "welsh",
    "swahili", "indonesian", "malay", "tagalog",
)  # fmt: skip
OCCUPATION = re.compile(
    r"\b(?:accountant|actor|actress|analyst|architect|artist|assistant|attorney|author|baker|barista|bartender|biologist"
    r"|builder"
    r"|carpenter|cashier|chef|chemist|cleaner|clerk|coach|consultant|cook|counsel(?:l)?or|dancer|dentist|designer|developer"
    r"|dietician|director|doctor|driver|economist|editor|electrician|engineer|entrepreneur|executive|farmer|filmmaker"
    r"|firefighter"
    r"|florist|freelancer|gardener|geologist|hairdresser|historian|housewife|illustrator|interpreter|intern|journalist"
    r"|judge|lawyer"
    r"|lecturer|librarian|machinist|manager|marketer|mathematician|mechanic|midwife|miner|model|musician|neurologist|nurse"
    r"|officer"
    r"|optician|painter|paramedic|pharmacist|photographer|physicist|physiotherapist|pianist|pilot|plumber|poet|police ?man"
    r"|policewoman|postdoc|postman|producer|professor|programmer|psychiatrist|psychologist|radiologist|realtor|receptionist"
    r"|recruiter|researcher|salesman|salesperson|scientist|secretary|seller|singer|soldier|statistician|stay-at-home \w+"
    r"|student"
    r"|surgeon|surveyor|tailor|teacher|technician|therapist|trainer|translator|tutor|undergraduate|vet|veterinarian|waiter"
    r"|waitress"
    r"|welder|writer|yoga instructor|instructor|administrator|broker|banker|trader|auditor|planner|veteran|social worker"
    r"|shopkeeper"
    r"|team lead|product owner|scrum master|dj|streamer|blogger)s?\b",
    re.IGNORECASE,
)
RELATIVES = (
    "wife", "husband", "partner", "spouse", "fiancée", "fiancé", "fiancee", "fiance", "girlfriend", "boyfriend",
    "mother-in-law",
    "father-in-law", "sister-in-law", "brother-in-law", "grandmother", "grandfather", "grandma", "grandpa", "granddaughter",
    "grandson", "stepson", "stepdaughter", "mother", "mom", "mum", "father", "dad", "parents", "brothers", "brother", "sisters",
    "sister", "daughters", "daughter", "sons", "son", "kids", "kid", "children", "child", "twins", "baby", "aunt", "uncle",
    "cousin",
    "niece", "nephew", "godson", "goddaughter", "roommate", "flatmate", "best friend", "boss", "manager", "dog", "cat", "puppy",
    "kitten", "horse", "parrot", "rabbit", "hamster", "therapist", "doctor", "landlord", "landlady",
)  # fmt: skip
LIVING = (
    "kids", "kid", "children", "child", "sons", "son", "daughters", "daughter", "brothers", "brother", "sisters", "sister",
    "twins",
    "siblings", "dogs", "dog", "cats", "cat", "puppies", "puppy", "kittens", "kitten", "horses", "horse", "rabbits",
    "rabbit", "parrots",
    "parrot", "hamsters", "hamster", "budgies", "budgie", "goldfish", "turtles", "turtle", "tortoise", "guinea pigs",
    "guinea pig",
    "chickens", "goats", "nieces", "niece", "nephews", "nephew", "grandchildren", "grandchild", "grandson", "granddaughter",
    "stepson", "stepdaughter", "twin brother", "twin sister", "girlfriend", "boyfriend", "master's degree", "master's", "phd",
    "bachelor's degree", "degree", "tattoos", "tattoo", "husky", "labrador", "poodle", "retriever", "beagle", "corgi", "pets",
)  # fmt: skip
POSSESSIONS = re.compile(
    r"\b(?:house|flat|apartment|condo|home|cottage|cabin|farm|land|car|van|truck|suv|motorbike|motorcycle|scooter|bike"
    r"|bicycle|boat|camper"
    r"|tesla|dog|cat|puppy|kitten|horse|rabbit|parrot|guitar|piano|violin|drum kit|camera|laptop|macbook|iphone|ipad|phone"
    r"|telescope"
    r"|bakery|restaurant|shop|company|drone|kayak|sewing machine|3d printer|electric \w+)\b",
    re.IGNORECASE,
)
DIETS = (
    "vegan",
    "vegetarian",
    "pescatarian",
    "flexitarian",
    "teetotal",
    "gluten[- ]free",
    "keto",
    "kosher",
    "halal",
)
CONDITIONS = (
    "diabetic", "asthmatic", "lactose[- ]intolerant", "gluten[- ]intolerant", "c(?:o)?eliac", "colou?r ?-?blind", "dyslexic",
    "deaf", "blind", "autistic", "epileptic", "pregnant", "left-handed", "hard of hearing", "anemic", "wheelchair user",
    "bipolar",
    "in remission", "dyspraxic", "insomniac",
)  # fmt: skip
ILLNESSES = (
    "diabetes", "asthma", "adhd", "add", "celiac(?: disease)?", "coeliac(?: disease)?", "migraines?", "epilepsy",
    "(?:high|low) blood pressure", "arthritis", "anxiety", "depression", "insomnia", "eczema", "psoriasis", "ibs", "ptsd",
    "autism",
    "dyslexia", "crohn's(?: disease)?", "cancer", "sciatica", "hypothyroidism", "endometriosis", "tinnitus", "hay fever",
    "sleep apnea", "scoliosis", "a heart condition", "anemia", "gout",
)  # fmt: skip
STATUS = (
    "married",
    "divorced",
    "single",
    "engaged",
    "widowed",
    "separated",
    "a widow(?:er)?",
    "a single (?:mom|mum|dad|parent|mother|father)",
)
APPOINTMENTS = (
    "appointments?", "meetings?", "exams?", "interviews?", "flights?", "presentations?", "surgery", "operation", "wedding",
    "conference",
    "deadlines?", "call with", "lesson", "concert", "check-?up", "graduation", "reservation", "train", "viewing",
    "rehearsal", "demo",
    "workshop", "defen[cs]e", "hearing", "recital", "tournament", "marathon", "race", "audition", "driving test", "test",
    "party",
    "doctor's", "dentist", "trip", "vacation", "holiday", "game", "match", "date", "due date", "move", "launch", "review",
    "standup",
)  # fmt: skip

_PROPER = r"^(?:an? |the |now )?(?:old |new |\d{4} )?[A-Z0-9\u00c0-\u00de]"
_ANY = r"^\w"
NO_VALUE = re.compile(
    r"(?:not|so|too|very|really|broken|slow|down|bad|good|great|killing|full|how|to (?:get|find|make)|that|what|gone|lost"
    r"|dead|here"
    r"|there|wrong|right|fine|ok|okay|working|running|always|never|still|getting)\b",
    re.IGNORECASE,
)
ATTRIBUTES: Mapping[str, str] = {
    r"e-?mail(?: address)?": r"\S+@\S+\.\w+",
    r"(?:(?:phone|mobile|cell|telephone) ?(?:number)?|number)": r"\d[\d ()/.-]{5,}|^(?:an? |the |now )?[A-Z][\w ]*\d"
    r"|^(?:an? |now )?(?:iPhone|Pixel|Galaxy)",
    r"(?:home |postal |new )?address": r"\d",
    r"(?:shoe|shirt|dress|ring|jacket|jeans|clothing) size": r"^\w{1,3}\b",
    r"size": r"^(?:\d{2}|x*[sml])\b",
    r"blood (?:type|group)": r"^(?:a|b|ab|o|0)\b",
    r"budget": r"\d",
    r"salary": r"\d",
    r"(?:height|weight)": r"\d",
    r"(?:car|bike|laptop|computer|camera|guitar|motorbike|tablet|watch|truck|keyboard|printer|router|phone)": _PROPER,
    r"(?:hometown|home town|nationality|native language|mother tongue|first language"
    r"|second language)": r"^[A-Za-z\u00c0-\u00de]\w+$|" + _PROPER,
    r"(?:job|profession|occupation|job title|role)": r"^(?:an? |the |to )?\w+",
    r"(?:company|employer|team|school|university|college)": _PROPER,
    r"(?:boss|manager|doctor|dentist|landlord|landlady|accountant|lawyer|coach|teacher|therapist|supervisor|vet|assistant)": (
        r"^(?:called |named |now )?(?:Dr\.? |Mr\.? |Mrs\.? |Ms\.? )?[A-Z\u00c0-\u00de]"
    ),
    r"(?:major|minor|degree|hobby|hobbies|star sign|zodiac sign|pronouns|religion|weakness|strength|dream job|goal"
    r"|main goal)": _ANY,
    r"(?:time ?zone|username|user name|handle|nickname|website|blog|github|twitter|instagram|domain)": r"^[\w@./+-]{2,}",
    r"(?:dog|cat|puppy|kitten|horse|parrot|rabbit|hamster)'s name": r"^[A-Z]",
    r"(?:wedding )?anniversary": r"\d|\b[A-Z]",
}
