-- Words of every language: which language a text has, and its lexemes in that language.

-- The most frequent words of the languages that Postgres can stem, and the signs beyond ASCII that they are
-- written with; in order of how many people write them. A language that is recognised by its script alone is
-- not here. Each has a letter, which stands for it in memoryd.frequent_words(): each frequent word, and each
-- sign with a dot before it, with the letters of its languages. A letter is there three times if only one
-- language has the word, twice if two have it: such a word says more. A word of one letter, which may be
-- anything, counts once. A word is there without its accents too, since many people write so. Behind a blank,
-- which is no word, stands each letter's language. Computed here, and not in each session.
do $do$
declare
    words jsonb;
begin
    with languages as materialized (
        select * from (values
        ('a', 'english', '',
         'the of and to in is that it for on was with as you are this be at have from not i he they we '
         'his her or an my by but she had your so what if will there their when which do would who about '
         'been how more one all up out no me can just them were like has him its over under then than '
         'some only after also two into could other t s don ll re ve did man am us our because said get '
         'go war die hat den old most must met still too very here where why any let c d e l m n x non os '
         'im take care ha yo gut keep soon talk later catch iron critic hi hello ok yes think know want '
         'make time good going really much well thanks thank even new see way being while again before '
         'between through both each such those these yours mine should does doing aren isn wasn couldn '
         'never always back long'),
        ('b', 'spanish', 'ñ ¿ ¡ á é í ó ú',
         'de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha '
         'me si sin sobre este ya entre cuando todo esta ser son dos también fue era muy años hasta desde '
         'está mi porque qué yo eso hay donde quien ellos nos él ella tiene tengo estoy hoy ayer mañana '
         'gracias sí nuestro cuál cómo dónde cuándo mis te tu nosotros había quién quiénes cuánto cuánta '
         'cuántos cuántas cada nuestra nuestros mío tuyo hola buenos buenas días noches tardes usted '
         'ustedes vosotros estás estamos están estaba fui hicimos hacer puedo puede pueden vamos sé aquí '
         'allí ahora siempre nunca tampoco contra esa ese esto primer primera tres'),
        ('c', 'french', 'é è ê ç œ à û î ô',
         'le la les de des du et en un une que qui est dans pour pas sur au aux avec ce il elle je tu '
         'nous vous ne se son sa ses plus par mais ou où sont mon ma mes cette ces comme été être avoir '
         'fait tout leur leurs si bien même aussi y c l d j qu n m très était avait ai as on lui quand '
         'quel quelle après sans sous chez notre votre merci oui non déjà hier demain peut suis a quoi '
         'quels quelles combien pourquoi comment toujours jamais rien ici là bonjour bonsoir salut chaque '
         'nos vos eux moi toi dont car donc puis vers pendant depuis avons avez avais es sommes êtes '
         'étaient faire fais voir dire deux trois beaucoup aucun'),
        ('d', 'german', 'ß ä ö ü',
         'der die und das ist in den von zu mit sich des auf für nicht ein eine dem im es auch als an '
         'nach wie er sie ich war bei hat aus aber wir wird noch einen um am sind einer so oder zum haben '
         'nur über kann dass wenn werden ihr mein meine seine durch man sein wurde bis dieser vor mehr '
         'was uns ihm mir mich wo wann warum wer du schon gestern heute morgen immer sehr hatte habe ja '
         'nein gerne danke fuer ueber kein keine zur welche unser unsere welcher welches welchen wieviele '
         'viele vielen unserer unseren unserem dich dir euch hab bin bist seid hast jede jeder jedes '
         'jeden jetzt dann dort hier nie niemals alle alles ohne gegen seit vom beim ins ans zwei drei '
         'hallo liegt gibt geht muss musst soll sollen will können könnte würde waren werde mal gut dein '
         'deine ihre ihren ihrer eines einem meiner meinen meinem diese dieses diesen doch weil damit'),
        ('e', 'portuguese', 'ã õ ç á ê é ó',
         'de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele ela das '
         'seu sua ou quando muito nos já eu também só pelo pela até isso entre era depois sem mesmo aos '
         'ter seus quem nas me esse eles você foi meu minha são está tem há às foram onde porque ontem '
         'hoje amanhã obrigado obrigada sim tenho estou nós qual nosso quanto quantos cada nunca sempre '
         'aqui ali vocês nossos três dois duas olá bom boa dia noite estava estamos fazer posso pode vou '
         'vai'),
        ('f', 'italian', 'à è ò ù',
         'il lo la i gli le di del della dei delle che e è un una in per con non si da al alla ai a nel '
         'nella sono mi ma come più ho ha anche su ci questo questa se quando molto hanno mio mia suo sua '
         'dove chi cosa perché io tu lui lei noi era stato essere dal sul tra fra così ed o l c dell all '
         'nell ieri oggi domani grazie sì già sempre poi ancora abbiamo quale quali quanto quanti perche '
         'qui là voi hai avete ogni mai senza verso due tre ciao buongiorno stata fatto fare vorrei posso '
         'può devo'),
        ('g', 'indonesian', '',
         'yang dan di ini itu dengan untuk tidak dari dalam akan pada saya ke karena ada juga adalah kita '
         'mereka kami anda bisa sudah telah oleh atau lebih seperti dia kamu aku apa sangat tapi saat '
         'hari hanya orang banyak belum lagi harus jika bagi serta bukan kapan dimana siapa mengapa '
         'bagaimana terima kasih besok kemarin punya nya tahun setelah'),
        ('h', 'turkish', 'ğ ı ş ç ü ö',
         've bir bu da de için ile çok ne o ben var gibi daha mi değil ama olarak kadar sonra en her şey '
         'diye olan yok mı benim ki sen biz onun nasıl neden zaman kim hiç şimdi oldu vardı bana beni '
         'seni siz nerede bugün dün yarın teşekkürler evet hayır olduğu önce göre bizim ya iyi'),
        ('i', 'dutch', '',
         'de het een en van ik is dat niet in op te zijn met voor hij er aan maar om dan ook naar heb bij '
         'ze we wat heeft was je mijn uit nog als zij kan hebben deze wij over worden door moet zou haar '
         'werd geen al wil goed veel wel tot hun ons jij onze waar wanneer hoe waarom ja nee graag '
         'bedankt wie welke hoeveel jullie mij hallo twee drie altijd nooit hier daar iedere elke nieuwe '
         'ben bent waren had hadden kun mag moeten'),
        ('j', 'romanian', 'ș ț ă ş ţ î',
         'și în de la a cu pe nu că o un este din care se mai pentru sunt să am fost ce au ca dar el ea '
         'al ale lui sau după când unde cum foarte meu mea era despre fi dacă numai fără noi voi ei îi le '
         'te mă îmi are aș acest această prin până aici acum azi ieri mâine mulțumesc si sa'),
        ('k', 'hungarian', 'ő ű á é ö',
         'a az és hogy nem is egy van meg de ez volt csak már mint ha azt ki még el lesz vagy ezt kell én '
         'mert minden be sem akkor itt nagyon majd mi neki fel olyan volna le lehet igen ott miért hol '
         'mikor hogyan ők voltak nekem kösz köszönöm tegnap ma holnap nincs között után'),
        ('l', 'swedish', 'å ä ö',
         'och i att det som en på är av för med till den har de inte om ett han men var jag sig från vi '
         'så kan hon när man efter skulle också vid mig ut vara hade vad bara nu över där mycket min mitt '
         'eller ska upp dig du dem henne deras något några tack hur varför ja nej gärna vem blir blev '
         'idag igår imorgon er oss här vilka vilken vilket alla alltid aldrig vill två tre hej varit gick '
         'kommer mina vår våra'),
        ('m', 'serbian', 'č ć š ž đ',
         'je i u da se na za su od sa ne to što nije bio ali kao samo sam ja po iz bi kako koji koja koje '
         'ili biti ako već sve mi moj gde kada kad zašto ko smo može ima nema bila bilo vrlo juče danas '
         'sutra hvala njegov njen oni ona on također takođe'),
        ('n', 'catalan', 'ç à è ò',
         'el la de i que a en els les del amb per un una és no es al va ha són com més però pel dels tot '
         'seu aquest aquesta ser jo molt han era ens també meu nostre perquè estava fer quan on ni sense '
         'sobre l d avui ahir demà gràcies vaig tinc som'),
        ('o', 'danish', 'å æ ø',
         'og i at det er en til af på for den med de som har ikke der et jeg kan om var vi han hun fra så '
         'men blev også efter når mig min skal ville være havde hvad hvor kun nu over ved ud op dig du '
         'dem hendes deres noget nogle meget tak hvordan hvornår hvorfor ja nej gerne hvem hvilke hvilken '
         'altid aldrig her vil to tre hej vores gik kommer mine været'),
        ('p', 'finnish', 'ä ö',
         'ja on ei että se oli hän mutta ovat kun myös niin tai mitä minä olen tämä joka jos sen ole kuin '
         'vain nyt ne sitä sinä hänen minun mikä sitten me siitä vielä olisi koska jotka hyvin kuka missä '
         'milloin en olet kanssa jo kyllä kiitos eilen tänään huomenna sekä'),
        ('q', 'norwegian', 'å æ ø',
         'og i det er på som en til at for med av den ikke de har jeg et vi var om fra han kan så men seg '
         'hun ble meg eller når etter skal ville være hadde hva hvor nå ut opp dere deg noe noen mye også '
         'bare min mitt veldig takk hvordan hvorfor ja nei gjerne ei mer hvem blir fikk dagen går hvilke '
         'hvilken alltid aldri her der vil to tre hei vår våre gikk kommer mine vært'),
        ('r', 'lithuanian', 'ė ų į ū š ž',
         'ir yra kad į su iš ne tai buvo kaip bet ar aš jis jo ji ant per man apie dėl mano kas už jų tik '
         'nuo nes mes tu jau prie po kur jei iki labai dar bus savo taip buvau kada kodėl kuris šiandien '
         'vakar rytoj ačiū esu turi turiu būti mums jie'),
        ('s', 'basque', '',
         'eta da ez du bat zen dira dut ere hau bere izan baina den dela egin zuen dago hori nire gure '
         'zer baino behar dugu zuten diren egun oso duen egiten ziren gara naiz ditu beste batean'),
        ('t', 'irish', 'á é í ó ú',
         'an na agus ar is a i ag go do le bhí tá sé sí ní atá mar ó sin nach seo siad mé tú chun féin as '
         'acu bhfuil níl raibh den ach nó leis air againn agam orm faoi freisin anois cá conas cén '
         'gur sa aici aige inniu inné amárach'),
        ('u', 'estonian', 'õ ä ü',
         'ja on ei see et ma oli ka kui mis aga siis ta oma selle mida nii veel olen tema või kes kus '
         'pole oled meie nad väga saab meil mul minu olid kas juba seda vaid peab nagu ning üks ole ära '
         'mu täna eile homme aitäh'),
        ('v', 'hindi', '',
         'है के में की और से का को पर यह नहीं हैं भी एक कि ने था हो जो मैं तो हम कर थी मेरे मेरा मेरी लिए '
         'वह इस उस क्या कब कहाँ कौन अपने गया थे रहा रही हूँ हमारे आज कल बहुत'),
        ('w', 'nepali', '',
         'छ र को मा ले लाई पनि हो यो छन् गर्न भएको भने हुन्छ थियो म मेरो हामी छैन गरेको लागि तर त्यो कहाँ '
         'कहिले किन के अब गर्छ हुन् उनी धेरै आज हिजो भोलि छु गर्ने बाट सँग'),
        -- Languages that Postgres cannot stem: Polish, Czech, Vietnamese, Marathi. Without them, their words
        -- would be stemmed as those of a similar language.
        ('x', 'simple', 'ł ą ę ż ś ć ź',
         'i w na z do się nie to że jest jak co po tak ale dla od za czy przez tylko był jego już była '
         'może być też które który która są przy mnie ja ze gdy oraz jej bardzo sobie go ten gdzie kiedy '
         'dlaczego kto moja mój mam wczoraj dziś jutro dziękuję'),
        ('y', 'simple', 'ř ě ů č š ž ý',
         'je se na v že to s z do o i za jsem jako ale by pro jak po co tak si k už jsou jen být byl nebo '
         'při který která které jeho také ve bylo od až byla když než mám kde kdy proč kdo můj moje včera '
         'dnes zítra děkuji není jsme'),
        ('z', 'simple', 'à á â í ô ú ó ê ă ì ò ơ ư ạ ế ộ ấ ệ ả ầ ọ ớ ờ ủ ừ ữ ậ ố ồ ị ể đ',
         'là và của có không một tôi cho được người trong đã với anh những này các ở khi đó cũng bạn đi '
         'ra làm nhưng về như từ rất em chúng đến để gì nào thì sẽ hay bị mình ngày ông bà vì sao hôm nay'),
        ('A', 'simple', '',
         'आहे आणि आहेत मी तो ती ते या हे मध्ये होते नाही काय माझा माझी माझे आम्ही केला केली केले होता '
         'होती साठी पण मला त्या त्याच्या कधी कुठे खूप')
        ) as v(letter, language, signs, words)
    ), each_word as (
        select w.word, l.letter, count(*) over (partition by w.word) as languages
        from languages l
        cross join lateral (
            select word from string_to_table(l.words, ' ') word
            union
            -- Not of a single letter, which says nothing without its accent.
            select regexp_replace(normalize(word, NFD), '[\u0300-\u036f]', '', 'g')
            from string_to_table(l.words, ' ') word
            where word ~ '^[a-z\u00df-\u036f\u1e00-\u1eff]{2,}$'
            union
            select '.' || sign from string_to_table(l.signs, ' ') sign
        ) w
    )
    select jsonb_object_agg(k.word, k.letters)
               || jsonb_build_object(' ', (select jsonb_object_agg(l.letter, l.language) from languages l))
    into words
    from (
        select s.word, string_agg(repeat(s.letter, case when length(s.word) = 1 then 1
                   else 4 - least(s.languages, 3)::integer end), '') as letters
        from each_word s
        group by s.word
    ) k;
    execute format($s$
create or replace function memoryd.frequent_words() returns jsonb
language sql immutable parallel safe
return %L::jsonb;
$s$, words);
end
$do$;

-- The language of a text that is mostly in another script than Latin, as far as the script decides; null if
-- it does not. The first two letters of one script are taken, so that a single sign such as Δ says nothing.
create or replace function memoryd.language_of_script(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    first constant integer := ascii(substring(
        p_text from '[\u0370-\u03ff\u1f00-\u1fff]{2}|[\u0400-\u052f]{2}|[\u0530-\u058f]{2}|[\u05d0-\u05ea]{2}'
        '|[\u0620-\u06ff\u0750-\u077f]{2}|[\u0900-\u097f]{2}|[\u0980-\u0dff]{2}'
        '|[\u0e00-\u0eff\u1000-\u10ff\u1100-\u11ff\u1780-\u17ff\u3040-\u9fff\uac00-\ud7a3]'));
begin
    return case
        when first is null then null
        when first < 1024 or first between 7936 and 8191 then 'greek'
        when first < 1328 then
            case when p_text ~* '[ђјљњћџ]' then 'serbian'
                 when p_text ~* '[іїєґўәғқңөұүһѓѕќӣӯҷ]' then 'simple'
                 else 'russian' end
        when first < 1424 then 'armenian'
        -- Hebrew has no stemmer. Yiddish is recognised by the letters that only Yiddish has.
        when first < 1536 then case when p_text ~ '[װױײ]|[אײי][ַָ]' then 'yiddish' else 'simple' end
        -- So are Persian, Urdu and others by theirs.
        when first < 2304 then case when p_text ~ '[پچژگکیٹڈڑےںەۆێ]' then 'simple' else 'arabic' end
        when first < 2432 then 'hindi'
        when first between 2944 and 3071 then 'tamil'
        else 'simple' end;
end
$$;

-- The language of a text: the name of a text search configuration of Postgres, or 'simple' for one that has
-- none. p_allowed: only one of these, the first if it is uncertain. Without it, an uncertain text is English.
-- The first 600 characters decide: first their script, then their frequent words.
create or replace function memoryd.language_of(p_text text, p_allowed text[] default null) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    by_word constant jsonb := memoryd.frequent_words();
    languages constant jsonb := by_word -> ' ';
    -- The answer where nothing else is said.
    usual text := coalesce(p_allowed[1], 'english');
    sample text := left(p_text, 600);
    beyond_ascii constant integer := octet_length(sample) - length(sample);
    by_script text;
    found text;
    hits text;
    usual_points integer;
begin
    if cardinality(p_allowed) = 1 or sample is null then
        return usual;
    end if;
    if beyond_ascii > 0 and sample is not normalized then
        sample := normalize(sample);
    end if;
    -- A Latin letter has one byte or two, one of another script two or three.
    if beyond_ascii * 5 > length(sample) * 2 then
        by_script := memoryd.language_of_script(sample);
        if by_script = 'hindi' then
            -- Nepali and Marathi have the same script, so words decide.
            usual := case when p_allowed is null or 'hindi' = any(p_allowed) then 'hindi' else usual end;
        elsif by_script <> 'simple' or (by_script = 'simple' and sample !~ '[A-Za-z]{2}') then
            return case when p_allowed is null or by_script = any(p_allowed) then by_script else usual end;
        -- Else words of another language stand in a text that has no stemmer. They decide.
        end if;
    end if;
    -- Digits are left in, so that of an id or a hash no piece looks like a word: "e" is one in six languages.
    sample := regexp_replace(lower(sample), '[\x01-\x2f\x3a-\x60\x7b-\x7f’“”«»।]+', ' ', 'g');
    select string_agg(by_word ->> w.word, '') into hits from string_to_table(sample, ' ') as w(word);
    if beyond_ascii > 0 and by_script is null then
        select concat(hits, string_agg(by_word ->> ('.' || w.sign), '')) into hits
        from string_to_table(regexp_replace(sample, '[\x01-\x7f]+', '', 'g'), null) as w(sign);
    end if;
    select length(hits) - length(replace(hits, k.key, '')) into usual_points
    from jsonb_each_text(languages) k
    where k.value = usual;
    if hits is null or usual_points * 2 >= length(hits) then
        return usual;
    end if;
    select l.language into found
    from (
        select k.value as language, k.key as letter,
               length(hits) - length(replace(hits, k.key, '')) as points
        from jsonb_each_text(languages) k
        where p_allowed is null or k.value = any(p_allowed)
    ) l
    -- The less there is of the usual language, the less is needed.
    where l.points > 1 + least(usual_points, 3)
    order by l.points desc, l.language = usual desc, l.letter
    limit 1;
    return coalesce(found, usual);
end
$$;

-- The lexemes of what is written without spaces (Han, Kana, Thai, Lao, Khmer, Burmese): single characters and
-- pairs of neighbours. Of Korean the pairs within a word: what is added to a noun then changes only its last
-- pair.
create or replace function memoryd.character_lexemes(p_text text) returns tsvector
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select string_agg(
               case when ascii(u.own) not between 0xac00 and 0xd7a3
                    then u.own || ':' || least(r.before + u.i, 16383)
                         || coalesce(' ' || u.own || u.next || ':' || least(r.before + u.i, 16383), '')
                    when u.next is not null or u.i = 1
                    then u.own || coalesce(u.next, '') || ':' || least(r.before + u.i, 16383) end,
               ' ')::tsvector
    from (
        select m.run[1] as run, sum(length(m.run[1])) over (order by m.n) - length(m.run[1]) as before
        from regexp_matches(
            p_text, '[\uac00-\ud7a3]+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30fa'
            '\u30fc-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+', 'g')
            with ordinality as m(run, n)
    ) r
    cross join lateral unnest(string_to_array(r.run, null), string_to_array(substr(r.run, 2), null))
        with ordinality as u(own, next, i)
$$;

-- The lexemes of a text that is not English, or not only of ASCII. What can be written in several forms has
-- one: full-width letters, ligatures and the like (NFKC), Arabic letters without vowel marks. Paths, names
-- and addresses are split into their parts, since questions name the parts; characters that are invisible are
-- deleted. Latin and Greek letters have no accents; ё is е, and Cyrillic has no stress marks; forms of the
-- Arabic alef, yeh and kaf are one. Marks in other scripts are letters. Only the first 32,768 characters.
create or replace function memoryd.lexemes_of_any(p_text text, p_language text) returns tsvector
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    configuration constant regconfig := coalesce(
        -- 'simple' if this server does not have it.
        (select c.oid::regconfig from pg_ts_config c
         where c.cfgname = p_language and c.cfgnamespace = 'pg_catalog'::regnamespace),
        'pg_catalog.simple'::regconfig);
    -- What character_lexemes takes, and the punctuation of Chinese and Japanese.
    unspaced constant text := '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff'
                              '\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+';
    form text := left(p_text, 32768);
    made tsvector;
    characters tsvector;
    plain text;
    alone text[];
    kept tsvector;
begin
    if p_text is null then
        return null;
    elsif octet_length(form) = length(form) then
        return to_tsvector(configuration, translate(form, '/\_.:@=#', '        '));
    end if;
    if form ~ '[™℠]' then
        form := translate(form, '™℠', '  ');
    end if;
    if form is not nfkc normalized then
        form := left(memoryd.nfkc(form), 32768);
    end if;
    if form ~ '[\u0620-\u06ff\u200b\u00ad\ufeff\u2060]' then
        form := regexp_replace(
            form, '[\u0640\u064b-\u0655\u0670\u200b\u00ad\ufeff\u2060]+', '', 'g');
    end if;
    form := translate(form, '/\_.:@=#', '        ');
    if form ~ unspaced then
        characters := memoryd.character_lexemes(form);
        form := regexp_replace(form, unspaced, ' ', 'g');
    end if;
    made := to_tsvector(configuration, form);
    plain := made::text;
    if plain ~ '[\u00df-\u036f\u0386-\u03ce\u0430-\u0451\u0622-\u06cc\u1e00-\u1fff]' then
        -- A letter alone keeps its accents: without them it is a word of another language (I, a, y).
        alone := array(select w from unnest(tsvector_to_array(made)) as w where w ~ '^[\u00df-\u024f]$');
        if alone <> '{}' then
            plain := ts_delete(made, alone)::text;
            kept := ts_delete(
                made, array(select unnest(tsvector_to_array(made)) except select unnest(alone)));
        end if;
        if plain ~ '[ßæœþøłđðıħŧςёأإآٱىکی]' then
            plain := translate(plain, 'øłđðıħŧςёأإآٱىکی', 'olddihtσеاااايكي');
            plain := replace(replace(replace(replace(plain, 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'), 'þ', 'th');
        end if;
        plain := normalize(plain, NFD);
        -- й is a letter, not и with a mark.
        plain := normalize(regexp_replace(
            plain, case when plain ~ '[\u0430-\u044f]'
                        then '(?<=[a-z\u0370-\u03ff])[\u0300-\u036f]+|(?<=[аеиоуыэюяі])\u0301+'
                        else '[\u0300-\u036f]+' end, '', 'g'), NFC);
        made := concat_ws(' ', plain, kept)::tsvector;
    end if;
    return case when characters is null then made else made || characters end;
end
$$;

-- The lexemes of a text: stems in this language, without accents, of words of any script. Only the first
-- 32,768 characters count. Of English in ASCII they are those that memoryd.lexemes_of gives.
create or replace function memoryd.lexemes_in(p_text text, p_language text) returns tsvector
language sql immutable parallel safe
return case when p_language = 'english'
                 and octet_length(left(p_text, 32768)) = length(left(p_text, 32768))
            then to_tsvector('pg_catalog.english'::regconfig,
                             translate(left(p_text, 32768), '/\_.:@=#', '        '))
            else memoryd.lexemes_of_any(p_text, p_language) end;

-- The lexemes of a question in each of these languages.
create or replace function memoryd.question_lexemes(p_text text, p_languages text[]) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(array_agg(distinct w.lexeme collate "C" order by w.lexeme collate "C"), '{}')
        from unnest(p_languages) l
        cross join lateral unnest(tsvector_to_array(memoryd.lexemes_in(p_text, l))) as w(lexeme));
end
$$;

-- The words of a name, or those of a text that may be names. They are the same in every language, so that
-- who speaks is found whatever the language of the question. Where there are no spaces, pairs of characters
-- only: a single one is in the names of many.
create or replace function memoryd.name_lexemes(p_text text) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(array_agg(w.lexeme), '{}')
        from unnest(tsvector_to_array(memoryd.lexemes_in(p_text, 'english'))) as w(lexeme)
        where length(w.lexeme) > 1 or ascii(w.lexeme) < 3584 or length(btrim(p_text)) = 1);
end
$$;

-- The languages of MEMORYD_LANGUAGES: rows are in one of these. Null: in any.
create or replace function memoryd.allowed_languages() returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select nullif(array(select jsonb_array_elements_text(s.value)), '{}')
        from memoryd.settings s where s.key = 'languages');
end
$$;
