-- The phrases by which a pattern is known, by language, as parts of one regular expression each. They are
-- compared with the message in lower case, with straight apostrophes and single blanks (memoryd.plain()). A
-- blank that begins a phrase is the beginning of a word, one that ends it the end of a word: the message has
-- a blank before and after each mark of punctuation, at its beginning and at its end. No phrase looks ahead
-- or behind, which would make it several times slower; what looks like a phrase and is none is in the rows of
-- `not ...`: it is taken out of a message that shows the pattern, and then the message must still show it.
-- They are one constant, so that no session has to put them together.
do $do$
declare
    phrases constant jsonb := (
select jsonb_object_agg(k.pattern, k.phrases)
from (select p.pattern, string_agg(p.phrases, '|' order by p.nth) as phrases
      from (select v.*, row_number() over () as nth from (
values
-- What we, or I, are to do. "How should I" asks for a way, "what should I ... first" for an order.
('decision', 'english',
 ' (should|shall)(n''t)? (we|i) | (we|i) should(n''t| not| probably| also| really)? | let''s [a-z]'
 '| (i''m|i am|we''re|we are) leaning | my vote | i propose | i suggest | i vote | i recommend '
 '| i think [^.?!]*should | (i''d|i would) (rather|vote|go|opt|pick|choose|prefer) '
 '| (what if|how about|why don''t|why not) (we|i) | either (we|i) | (we|i) could either '
 '| do (we|i) (really )?(want|need) | are we (sure|going) | can we agree '
 '| (would|do) you (pick|choose|prefer|recommend|go for|go with|think (we|i)) '
 '| (would|wouldn''t) it be (better|best|wise|smarter) | (it would|it''d) be better '
 '| is(n''t)? it (a good idea|worth|wise|time to) | pros and cons | trade-?offs? | option [a-d] '
 '| (vs|versus) | your (take|recommendation) '
 '| which [^?]* (is|are|would be) (better|best|preferable) '
 '| (decid(e|ed|es|ing)|decisions?|choose) '),
('not decision', 'english',
 ' (how|where|when|who|what) (should|shall) (we|i) | (we|i) should have | do (we|i) need to know '
 '| let''s (say|see|be|face|hope|assume|imagine|pretend|suppose|call it) '),
('decision', 'german',
 ' (sollen|sollten|wollen) wir | wir sollten | lasst? uns | ich schlage vor | entscheid'
 '| (wäre|waere) es besser | ich finde wir '),
('decision', 'french',
 ' on devrait | nous devrions | (devrait-on|devrions-nous|faut-il) | est-ce qu''on (doit|devrait) '
 '| je pense qu''on | je propose | et si on | décid| mieux vaut '),
('decision', 'spanish',
 ' deber(í|i)amos | debemos | propongo | conviene | decidi| decisión | vamos a (usar|hacer|dejar) '),
-- Something that happened, was said or was tried before.
('past', 'english',
 ' remember (when|how|that|what|who|why|where|last|our|the) '
 '| (do|don''t|can|did) you (still )?(remember|recall) '
 '| last time | previous(ly)? | in the past | so far | back (then|when|in) | the other day '
 '| or (did|didn''t|have|haven''t|had) (we|i|you|they) '
 '|[.!?,;:] (and |so |but |ok |no , )*(did|didn''t|haven''t|hasn''t|hadn''t|wasn''t|weren''t) '
 '|[.!?,;:] (and |so |but |ok )*(have|has|had|was|were) '
     '(we|i|you|they|he|she|it|that|this|there|anyone|anybody|somebody|someone|the|our|my) '
 '| (what|when|where|why|who|how|how long|how many [a-z]+|which [a-z]+) (did|was|were) '
 '| (what|why|where|how|how often) (have|has|had) '
 '| what (happened|went) '
 '| who [a-z]+ed | who (wrote|said|made|told|gave|sent|broke|took|built|bought|paid|chose|won|left|met|ran) '
 '| as (we|i|you) (said|discussed|agreed|mentioned|decided|did) | as (discussed|agreed|mentioned) '
 '| (we|you) ([a-z]+ )?(talked|spoke|discussed|agreed|tried|measured|used to) '
 '| (we|i|you|they) (had |have )?already | (we''ve|i''ve|you''ve|we''d|i''d) already '
 '| you (said|told|mentioned|promised|wrote|suggested) | i (mentioned|told you|asked you|gave you) '
 '| (left off|where (we|you|i) (stopped|left)) | (seen|done|had|been|heard) [^.?]*before [?.]'
 '| same [^.?]*as (last|before|yesterday|the last|the previous) '),
('not past', 'english', ' (what|why|where|how|how often) (have|has|had) an? '),
-- A time counts where it is asked about, or where it is something that we did.
('past', 'english',
 ' (yesterday|last (week|month|year|night|quarter|sprint|summer|winter|monday|tuesday|wednesday|thursday'
     '|friday|saturday|sunday)|ago|earlier|originally) [^?]*[?]'
 '| (yesterday|ago|last (week|month|year|night|quarter|sprint)) [^.]* (we|you) '
 '| (we|you) [^.]* (yesterday|ago|last (week|month|year|night|quarter|sprint)) '),
('past', 'german',
 ' erinnerst du dich | (weißt|weisst) du noch | letzte[sn]? mal | letzten? (woche|monat|jahr) | gestern '
 '| damals | neulich | (haben|hatten) wir | was war | wann (war|haben|hat) | wer hat '
 '| vor [a-z0-9]+ (tagen|wochen|monaten|jahren) '),
('past', 'french',
 ' (souviens|souvenez|rappelles|rappelez) | la dernière fois | l''autre jour | hier | la semaine dernière '
 '| (avons-nous|avions-nous|n''avons-nous) | comme convenu | il y a [a-z0-9]+ (jours|semaines|mois) '
 '| qui a | qu''est-ce qui s''est passé '),
('past', 'spanish',
 ' recuerdas | te acuerdas | la última vez | ayer | la semana pasada | el mes pasado | dijiste | acordamos '
 '| (habíamos|hicimos) | hace [a-z0-9]+ (días|semanas|meses) | qué pasó | quién (dijo|hizo) '
 '| cuándo (fue|hicimos) '),
-- Order, priorities and times of work to come. Plans of queries and of tariffs are none.
('planning', 'english',
 ' next steps? | (what|what''s|what is|what comes|what do we do) next | next up | road ?maps? '
 '| implementation (order|plan) | milestones? | time ?lines? | priorit(y|ies|i[sz]e|i[sz]ing|i[sz]ed) '
 '| backlog | sprints? | (in )?(what|which) order | by (urgency|priority|impact) '
 '| (the|a|our|your|game|release|launch|project|action) plan '
 '| plan (the|my|our|a|an|for|out|ahead|this|next) | planning '
 '| strateg(y|ies|ic) | (re)?schedul(e|es|ed|ing) '
 '| deadlines? | due (date|first|next|by) | agenda | goals? for | (our|the) goals | objectives '
 '| roll-?out | phases? | (three|two|four|several) stages | next quarter '
 '| to-?do( list)? | what(''s| is) (left|still open|missing|remaining|outstanding) '
 '| before (we|the|it) (can |could )?(launch|ship|release|go live) | block(s|ing|ers?)? the (release|launch) '
 '| (what|which|should (we|i))[^.?]* (first|next) '
 '| when (can|will|do|could) we (ship|launch|release|start|finish|go) | where do we go '
 '| what (do|comes|will|happens)[^.?]* after | what do we tackle '),
('not planning', 'english',
 ' (query|explain|execution|data|annual|monthly|meal) plan | the plan (shows|uses|reads) '
 '| (what|which)[^.?]* (did|was|were|tried)[^.?]* (first|next) '),
('planning', 'german',
 ' nächsten? schritte? | was kommt als nächstes | fahrplan | roadmap | meilenstein| zeitplan | priorit'
 '| reihenfolge | planung | bis wann | wie geht es weiter '),
('planning', 'french',
 ' prochaines? étapes? | feuille de route | calendrier | priorités? | jalons? | échéance| planifi'
 '| dans quel ordre '),
('planning', 'spanish',
 ' próximos? pasos? | hoja de ruta | prioridades | cronograma | planifica| hitos? | en qué orden '),
-- What contradicts what was said, or is believed. "But" and "actually" only where a sentence begins, since
-- within one they mostly do not; "no" only before a mark of punctuation.
('correction', 'english',
 '[.!?;:] (no , |well , |but |ok |wait , |hmm )*actually '
 '|[^?] , actually [.!]'
 '| (is|are|was|were) actually [^?]*[.!;] $'
 '|^ \. but |[.!] but (you|that|it|we|i|the) | but (you|i|we) (said|told|agreed|never) '
 '|[.!?;:,] (wait , |hmm |hmm , |sorry , )*(no|nope|nah) [,:.!] [a-z]'
 '| (hmm|wait|oh) no '
 '| (that|this|it)(''s| is| was)(n''t| not)? (not )?(quite |really |entirely )?(right|correct|true|wrong|'
     'incorrect|false|outdated|obsolete|spelled|intended|how it) '
 '| (that|this|it)(''s| is| was) (not|n''t) (what|how|the|where|who|a) '
 '| (that|this|it) (isn''t|wasn''t) (what|how|the|right|correct|true|a) '
 '| (that|this|it|those|these|they) (can''t|cannot) be '
 '| (doesn''t|does not|don''t|do not) (look|sound|seem|add up) (right|correct|quite right)? ?'
 '| contradicts? | contrary to | (says?|said) (the opposite|otherwise) | the opposite '
 '| (is|are) (wrong|incorrect|outdated|no longer|out of date|off by) '
 '| no longer | any ?more [.,!]'
 '| i meant | i (said|asked (for|how)) | i never | we never | never (said|agreed|asked|wanted) '
 '| correction : | scratch that | not quite | disagree '
 '| you(''re| are) (wrong|mistaken) '
 '| you(''ve| have)? (misunderstood|misread|mixed|confused|got [^.?]*wrong) '
 '| got [^.?]* wrong | mistakes? in | wrong (file|link|one|number|person|order|way|database|branch|version) '
 '|[.!?;:,] wrong | (don''t|do not) think (that''s|that is|it''s|this is|so) '
 '| the other way (a)?round | mixed up '
 '| not [^.?,]+ , [^?,]+[.!] $| , not [^?,]+[.!] $'),
('not correction', 'english',
 ' (no|nope|nah) [,.!] (thanks|thank|problem|worries|need|rush) | as i (said|asked) '),
('correction', 'german',
 '[.!?] (nein|doch) , | eigentlich | (das|es) (stimmt|ist) (so )?(nicht|falsch) | stimmt nicht | ist falsch '
 '|^ \. aber | ich meinte | nicht mehr | sondern '),
('correction', 'french',
 ' en fait | en réalité | ce n''est pas | c''est (faux|incorrect) |^ \. mais |[.!?] non , '
 '| je voulais dire | au contraire '),
('correction', 'spanish',
 ' en realidad | de hecho | eso no es | no es (correcto|cierto|verdad|así) | está mal |^ \. pero '
 '| quise decir | ya no | te equivocas '),
-- How something is done, or works; what the rule is.
('how-to', 'english',
 ' how (do|does|can|could|should|would|must) '
 '| how to | how (it|this|that) works '
 '| how (is|are|was|were) [^?.]*(ed|en|done|made|built|set up|run|paid|kept|sent) '
 '| how (did|have|had) (we|you|i|they) '
 '| (what''s|what is|what are) (our|the|your) ([a-z]+ )?(process|procedure|policy|policies'
     '|conventions?|rules?'
     '|steps|standard|protocol|guidelines?|workflow|best practice|syntax) '
 '| (what''s|what is) our '
 '| (right|best|proper|correct|standard|usual|recommended) (way|practice) '
 '| (the|normal|usual|standard|our) (process|procedure) (for|to|when|of) '
 '| walk me through | show me how | teach me | guide me | (explain|tell me|describe|know|idea|learn|see) how '
 '| steps (to|for|are|needed) | what steps | runbook | playbook | checklist | instructions '
 '| [a-z]+ guide | what do i need to | what do we do (when|if) '
 '| (what|which) (command|flag|option|tool|setting)s? (do|does|should|can|must|lists?|shows?|will) '),
('not how-to', 'english',
 ' how (do|does|would|did) (you (do|feel|like)|(that|this|it) (sound|look|feel))[a-z]* '
 '| how (is|are) (you|things|it going) '
 '| (what''s|what is|what are) (our|the|your) (plan|game|goal|next|last|priorit)[a-z]*( steps?)? '),
('how-to', 'german',
 ' wie [a-zäöü]+ (ich|man|wir|du|das|die|der|den|es) | wie (kann|geht|funktioniert) '
 '| wie (man|ich|wir) | anleitung | ablauf (für|bei|zum) | (was|wie) (ist|lautet) unsere? '),
('how-to', 'french',
 ' comment (puis|peut|faire|fait|fonctionne|fonctionnent|on|je|est-ce|[a-z]+er) ?'
 '| quelle est (la|notre) (procédure|politique|méthode) | quel est (le|notre) processus | mode d''emploi '
 '| étapes pour '),
('how-to', 'spanish',
 ' cómo (puedo|podemos|se|hago|hacer|funciona|[a-z]+o|[a-z]+amos|[a-z]+ar) '
 '| cuál es (el|la|nuestr[oa]) (proceso|procedimiento|política) | pasos para '),
-- Thanks, greetings and laughter, as whole words: who is greeted may be named by one word more.
('greeting', 'english',
 ' (hi|hello|hey|hiya|greetings|good (morning|afternoon|evening|night|day)'
     '|thanks?( you)?( so| very)? much|thank you|thanks|thx|ty|ta|cheers|much appreciated'
     '|nice (one|work|job)|good (work|job|one)|well done|great (work|job)|lo+l|lmf?ao|rofl|ttyl|tysm|gn'
     '|catch you later|sleep (well|tight)|sweet dreams|bye|goodbye|see you|see ya|take care|cya'
     '|nice to meet you|have a (nice|great|good|lovely) (day|one|evening|weekend|night|week|time)'
     '|tyvm|thank ?u|night night|gn8|cheerio|toodles|g''day|heya|happy birthday|merry christmas'
     '|good luck)(?= )'),
('greeting', 'german',
 ' (hallo|guten (morgen|tag|abend)|gute nacht|danke( ?schön| sehr| dir)?|vielen (lieben )?dank'
     '|tschüssi?|servus|moin|schlaf (gut|schön)|mach''s gut|schöne[ns]? (tag|abend|wochenende)( noch)?'
     '|grüß gott)(?= )'),
('greeting', 'french',
 ' (bonjour|bonsoir|salut|merci( beaucoup| bien)?|au revoir|coucou|bonne (nuit|journée|soirée)|mdr|ptdr'
     '|bisous)(?= )'),
('greeting', 'spanish',
 ' (hola|buenos días|buenas( tardes| noches)?|(muchas )?gracias|adiós|hasta (luego|pronto|la vista)|chao'
     ')(?= )'),
('greeting', 'of other languages',
 ' (olá|oi|bom dia|boa (tarde|noite)|obrigad[oa]|valeu|tchau|até (logo|amanhã)|ciao|grazie( mille)?'
     '|buongiorno|buonasera|buonanotte|arrivederci|cześć|dzień dobry|dzięki|dziękuję|dobranoc|ahoj|děkuji'
     '|привет|здравствуй(те)?|доброе утро|добрый (день|вечер)|спасибо|спокойной ночи|привіт|дякую|bedankt'
     '|dank je( wel)?|goedemorgen|goedenavond|welterusten|doei|hej|tack( så mycket)?|god natt|takk|kiitos'
     '|merhaba|günaydın|teşekkürler|iyi geceler|γεια( σου)?|καλημέρα|καληνύχτα|ευχαριστώ|مرحبا|شكرا'
     '|नमस्ते|धन्यवाद|terima kasih|selamat pagi|cảm ơn|xin chào|おはよう(ございます)?|こんにちは|こんばんは'
     '|ありがとう(ございます)?|おやすみ(なさい)?|안녕(하세요)?|고마워(요)?|감사합니다)(?= )'),
('greeting', 'of all languages',
 ' ([aeub]*(h[aeiouäöü]){2,}h?|(j[aeiou]){2,}j?|([xх][aiаеи]){2,}[xх]?|k{3,}|w{3,}|(rs){2,}s?|ㅋ{2,}|ㅎ{2,}'
     '|ه{3,})(?= )'),
-- What else says nothing that memory could help with.
('small talk', 'english',
 ' (yo|morning|ok|okay|k|alright|all right|sure|yes|yep|yeah|yup|no|nope|right|fine|done|understood|noted'
     '|agreed|got it|i see|makes sense|sounds good|will do|cool|great|nice|perfect|awesome|excellent'
     '|amazing|wow|lovely|brilliant|wonderful|good|that''s (funny|great|cool|nice|good|awesome|fine)'
     '|congrats|congratulations|hm+|oh+|ah+|uh|ugh|meh|aw+|yay|phew|omg|ikr|idk'
     '|nvm|brb|gtg|g2g|omw|talk (later|soon|to you later|tomorrow)|nah|sup|wassup|no way|you too|same here'
     '|you''re welcome|you are welcome|welcome|no (problem|worries|rush)|np|never mind|my pleasure|sorry'
     '|later|how are you( doing)?|how''s it going|how is it going|what''s up'
     '|everyone|everybody|all|team|guys|folks|there|again|a lot|so much|very much|too|today|tomorrow|soon'
     '|please|pls|and|then|one|so|very|really|for that|for your help|for the help'
     '|okie|oki|okey|dokie|dokey|u+h*m+|mhm+|uh huh|alrighty|righto|aight|gotcha|got ya|roger that'
     '|copy that|wilco|fair enough|whatever|dunno|no cap|woohoo|oops|my bad|sweet|neat|awesome sauce|love it'
     '|you''re the best|ur welcome|anytime|appreciate it|mate|bro|how r u|hru|wyd|mornin|evening|afternoon'
     '|a bunch|that (helps|works))(?= )'),
('small talk', 'german',
 ' (bitte( schön)?|ja|nein|genau|super|toll|prima|alles (klar|gut)|bis (bald|morgen|dann|später|nachher)'
     '|gern(e)?|wie geht''?s( dir| euch)?|ach so|passt( schon?)?|na|jo|jep|jup|krass|mega'
     '|läuft|jawohl|verstehe|verstanden|sehr gut|freut mich|keine ahnung|jein|nee|lass mal|lg|hdl'
     '|(das ist )?lieb von dir)(?= )'),
('small talk', 'french',
 ' (de rien|oui|non|d''accord|parfait|super|à (demain|bientôt|plus( tard)?|tout à l''heure)'
     '|(comment )?ça va( bien)?|ouais|nickel|bravo|je vois|d''acc|très bien|trop bien|ça marche'
     '|pas de soucis?|je t''en prie|comment vas-tu|à toi)(?= )'),
('small talk', 'spanish',
 ' (de nada|sí|vale|perfecto|genial|hasta mañana|qué tal( estás)?|cómo estás|nos vemos|claro|venga|guay'
     '|que descanses|igualmente|de acuerdo|okey|muy bien|un abrazo)(?= )'),
('small talk', 'of other languages', ' (va bene|tudo bem|beleza|lekker|笑)(?= )'),
('small talk', 'chinese',
 ' (你好吗?|您好|嗨|在吗|早|行|厉害|太好了|不知道'
     '|谢谢(你|您|啦)?|谢啦|多谢|再见|拜拜|晚安|早上好|早安|晚上好|好(的|吧|啊|呀)?|嗯+|哈+|呵+|嘿+|是的|对|没事'
     '|没关系|不客气|辛苦了|明白了?|收到|可以|没问题|哦+|哇+|啊+|呀|了|明天见|回头见)+(?= )')
      ) as v(pattern, language, phrases)) p
      group by p.pattern) k);
begin
    execute format($s$
create or replace function memoryd.phrases_of(p_pattern text) returns text
language sql immutable parallel safe
return %L::jsonb ->> p_pattern;
$s$, phrases);
end
$do$;
