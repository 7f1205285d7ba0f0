"""Closed lists of English words that the rules for facts need."""

from __future__ import annotations

import re

from memory.facts.dates import MONTHS, WEEKDAYS

NATIONALITIES = frozenset({
    "american", "argentinian", "australian", "austrian", "belgian", "brazilian", "british", "bulgarian", "canadian",
    "chilean", "chinese", "colombian", "croatian", "cuban", "czech", "danish", "dutch", "egyptian", "english", "estonian",
    "ethiopian", "european", "finnish", "french", "german", "ghanaian", "greek", "hungarian", "icelandic", "indian",
    "indonesian", "iranian", "iraqi", "irish", "israeli", "italian", "japanese", "jewish", "jordanian", "kenyan", "korean",
    "latvian", "lebanese", "lithuanian", "malaysian", "mexican", "moroccan", "muslim", "nepali", "nigerian", "norwegian",
    "pakistani", "peruvian", "polish", "portuguese", "romanian", "russian", "scottish", "serbian", "slovak", "slovenian",
    "spanish", "swedish", "swiss", "syrian", "taiwanese", "thai", "tunisian", "turkish", "ukrainian", "vietnamese", "welsh",
    "catholic", "christian", "buddhist", "hindu", "asian", "african", "latino", "latina",
})  # fmt: skip
LANGUAGES = (
    "english", "german", "french", "spanish", "portuguese", "italian", "dutch", "catalan", "polish", "russian", "ukrainian",
    "turkish", "arabic", "persian", "farsi", "hindi", "urdu", "bengali", "tamil", "mandarin", "cantonese", "chinese",
    "japanese", "korean", "vietnamese", "thai", "swedish", "norwegian", "danish", "finnish", "greek", "hebrew", "hungarian",
    "czech", "slovak", "romanian", "bulgarian", "serbian", "croatian", "irish", "welsh", "swahili", "indonesian", "malay",
    "tagalog",
)  # fmt: skip
_OCCUPATION = re.compile(
    r"(?:\b(?:mechanic|paramedic|medic|surgeon|referee|apprentice|trainee|nanny|nun|monk|priest|vicar|guard|steward|cop"
    r"|(?:social |care |key |office )?worker|nurse|chef|cook|pilot|judge|vet|poet|coach|clerk|model|dj|soldier|midwife"
    r"|secretary|undergraduate|postdoc|intern|freelance|au pair|executive|lead|product owner|scrum master|barista|attorney"
    r"|veteran|stay[ -]at[ -]home \w+)|[a-z]{2,}(?:ist|ian|smith|maid|herd|monger|logist|rapher|ician|wright)|[a-z]+(?:er|or"
    r"|man|woman|ant|ent|eur|eer|ess))s?$",
    re.IGNORECASE,
)
_NO_OCCUPATION = re.compile(
    r"\b(?:beginner|number|newcomer|\w*mother|\w*father|\w*brother|\w*sister|daughter|member|customer|user|lover|hater|sucker"
    r"|loser|winner|fighter|believer|outsider|stranger|dreamer|\w*thinker|sleeper|riser|smoker|drinker|eater|disaster|monster"
    r"|supporter|follower|character|killer|parent|patient|client|giant|infant|survivor|visitor|minor|junior|senior|traitor"
    r"|human|person|man|woman|owner|vampire|speaker|never|other|non-\w+|shopper|procrastinator|\w*keeper of|owl|fan|genius"
    r"|god|president of|elephant|cancer|starter|quitter|complainer|traveller|traveler|explorer|pleaser|vegetarian|listener"
    r"|learner|fast \w+|slow \w+|good \w+|bad \w+|great \w+|terrible \w+|horrible \w+|big \w+|early \w+|late \w+|heavy \w+"
    r"|light \w+|little \w+|failure|computer|language model|server|robot|teenager|toddler|youngster|mess|prisoner|slave"
    r"|christian|dancer at heart|different"
    r"|independent|confident|moment|argument|important)\b",
    re.IGNORECASE,
)


def is_occupation(text: str) -> bool:
    """Whether the text, without its article, says what somebody works as: by how its last word ends."""
    return len(text.split()) < 5 and bool(_OCCUPATION.search(text)) and not _NO_OCCUPATION.search(text)  # fmt: skip


RELATIVES = (
    "wife", "husband", "partner", "spouse", "fiancée", "fiancé", "fiancee", "fiance", "girlfriend", "boyfriend",
    "mother-in-law", "father-in-law", "sister-in-law", "brother-in-law", "grandmother", "grandfather", "grandma", "grandpa",
    "granddaughter", "grandson", "stepson", "stepdaughter", "mother", "mom", "mum", "father", "dad", "parents", "brothers",
    "brother", "sisters", "sister", "daughters", "daughter", "sons", "son", "kids", "kid", "children", "child", "twins",
    "baby", "aunt", "uncle", "cousin", "niece", "nephew", "godson", "goddaughter", "roommate", "flatmate", "best friend",
    "boss", "manager", "dog", "cat", "puppy", "kitten", "horse", "parrot", "rabbit", "hamster", "therapist", "doctor",
    "landlord", "landlady", "mother in law", "father in law", "sister in law", "brother in law", "flatmates", "roommates",
    "housemates", "housemate", "neighbours", "neighbour", "neighbor", "mate", "colleague", "coworker", "friend",
    "grandchildren", "in-laws", "little one",
)  # fmt: skip
KIN = "|".join(sorted(RELATIVES, key=len, reverse=True))
LIVING = (
    "kids", "kid", "children", "child", "sons", "son", "daughters", "daughter", "brothers", "brother", "sisters", "sister",
    "twins", "siblings", "dogs", "dog", "cats", "cat", "puppies", "puppy", "kittens", "kitten", "horses", "horse",
    "rabbits", "rabbit", "parrots", "parrot", "hamsters", "hamster", "budgies", "budgie", "goldfish", "turtles", "turtle",
    "tortoise", "guinea pigs", "guinea pig", "chickens", "goats", "nieces", "niece", "nephews", "nephew", "grandchildren",
    "grandchild", "grandson", "granddaughter", "stepson", "stepdaughter", "twin brother", "twin sister", "girlfriend",
    "boyfriend", "master's degree", "master's", "phd", "bachelor's degree", "degree", "little one", "little ones",
    "flatmates", "flatmate", "roommate", "housemate", "tattoos", "tattoo", "husky", "labrador", "poodle", "retriever",
    "beagle", "corgi", "pets",
)  # fmt: skip
POSSESSIONS = re.compile(
    r"\b(?:house|flat|apartment|condo|home|cottage|cabin|farm|land|car|van|truck|suv|motorbike|motorcycle|scooter|bike"
    r"|bicycle|boat|camper|tesla|dog|cat|puppy|kitten|horse|rabbit|parrot|guitar|piano|violin|drum kit|camera|laptop|macbook"
    r"|iphone|ipad|phone|telescope|bakery|restaurant|shop|company|drone|kayak|sewing machine|3d printer|electric \w+)\b",
    re.IGNORECASE,
)
DIETS = (
    "vegan", "vegetarian", "pescatarian", "flexitarian", "teetotal", "gluten[- ]free", "keto", "kosher", "halal",
)  # fmt: skip
CONDITIONS = (
    "diabetic", "asthmatic", "lactose[- ]intolerant", "gluten[- ]intolerant", "c(?:o)?eliac", "colou?r ?-?blind",
    "dyslexic", "deaf", "blind", "autistic", "epileptic", "pregnant", "left-handed", "hard of hearing", "anemic",
    "wheelchair user", "bipolar", "in remission", "dyspraxic", "insomniac",
)  # fmt: skip
ILLNESSES = (
    "diabetes", "asthma", "adhd", "add", "celiac(?: disease)?", "coeliac(?: disease)?", "migraines?", "epilepsy",
    "(?:high|low) blood pressure", "arthritis", "anxiety", "depression", "insomnia", "eczema", "psoriasis", "ibs", "ptsd",
    "autism", "dyslexia", "crohn's(?: disease)?", "cancer", "sciatica", "hypothyroidism", "endometriosis", "tinnitus",
    "hay fever", "sleep apnea", "scoliosis", "a heart condition", "anemia", "gout",
)  # fmt: skip
NO_NAMES = frozenset({
    "not", "sorry", "ok", "okay", "fine", "back", "here", "so", "very", "too", "just", "also", "still", "good", "great",
    "sure", "happy", "sad", "glad", "tired", "in", "on", "at", "a", "an", "the", "i", "mr", "mrs", "ready", "done",
    "new", "old", "home", "late", "off", "out", "up", "down", "well",
}) | set(WEEKDAYS) | set(MONTHS)  # fmt: skip
FICTION = frozenset({
    "batman", "superman", "spiderman", "spider-man", "santa", "god", "jesus", "elvis", "napoleon", "dracula", "sherlock",
    "gandalf", "spartacus", "iron man", "inigo montoya", "thor", "hulk", "wonder woman", "james bond", "neo", "spock",
    "harry potter", "peter pan", "groot", "barbie", "rambo", "godot", "yoda", "darth vader", "tarzan", "hamlet",
    "cinderella", "shakespeare", "einstein", "voldemort", "frodo", "robin hood", "zorro", "godzilla",
})  # fmt: skip
"""Whom one is only in jest."""
