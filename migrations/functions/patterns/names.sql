-- Names in a message: which of its words are names that the caller's rows know.

-- The runs of up to three words in a message, of its first hundred words: each may be a name.
create or replace function memoryd.word_runs(p_plain text) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select array_agg(r.run)
        from (select t.word, t.word || ' ' || lead(t.word) over w as two,
                     t.word || ' ' || lead(t.word) over w || ' ' || lead(t.word, 2) over w as three
              from string_to_table(case when strpos(p_plain, '''') = 0 then p_plain
                                        else regexp_replace(p_plain, '''s? ', ' ', 'g') end, ' ')
                   with ordinality as t(word, nth)
              where t.nth <= 100 and t.word <> ''
              window w as (order by t.nth)) w
        cross join lateral unnest(array[w.word, w.two, w.three]) as r(run)
        where length(w.word) > 1 and r.run is not null);
end
$$;

-- Those of these words that are no names, whatever writes them with a capital letter: what the titles of
-- teams are made of (by their English stems), days, months and languages.
create or replace function memoryd.common_words(p_words text[]) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select w.word
        from (select u as word, (ts_lexize('pg_catalog.english_stem', u))[1] as stem
              from unnest(p_words) u offset 0) w
        where length(w.word) < 3 or w.stem is null
           or w.word ~ '(ing|[st]ion|ment|ness|[ai]ty|ance|ence|ship|ism|book|back|list|flow|day)s?$'
           or w.stem = any('{access,account,action,agenda,agent,agreement,alert,alway,answer,api,april,archiv,
                asset,august,backlog,backup,balanc,bank,beta,bill,board,branch,brief,budget,bug,build,busi,
                calendar,call,care,case,cash,chang,changelog,channel,chart,chat,check,checkout,chines,choic,
                client,cloud,coach,code,coffe,command,commit,common,compani,complianc,config,contact,
                content,contract,convent,copi,cost,cours,credit,cron,crypto,custom,daili,damag,danger,
                dashboard,data,databas,deadlin,debt,decemb,decis,default,definit,demo,deploy,design,detail,
                dinner,disk,document,done,draft,dutch,effort,email,english,error,event,everi,exampl,expens,
                export,fact,failur,februari,feedback,field,file,final,financ,fire,first,fix,focus,food,form,
                format,french,function,fund,futur,german,goal,growth,guid,guest,hardwar,health,help,histori,
                holiday,home,honesti,hotfix,hour,human,idea,import,inbox,incid,index,info,input,insight,
                insur,internet,interview,invoic,issu,italian,januari,japanes,job,juli,june,key,knowledg,
                label,last,law,lead,legal,level,life,limit,link,loan,local,log,login,logist,loss,lunch,mail,
                manag,manual,map,march,market,mass,memori,menu,messag,method,metric,migrat,mileston,model,
                money,month,music,name,network,never,new,news,newslett,next,night,note,notic,novemb,number,
                octob,offer,offic,old,onboard,onli,oper,order,outag,outcom,output,overtim,owner,pace,page,
                paper,part,partner,password,past,patch,payrol,peopl,perform,person,phone,pipelin,plan,plant,
                platform,polici,portug,post,postmortem,power,practic,present,press,price,principl,print,
                prioriti,privaci,procedur,process,product,profit,program,progress,project,proof,propos,
                public,purchas,qualiti,quarter,queri,question,queue,rate,record,recoveri,refund,releas,
                remot,rent,report,request,research,retro,retrospect,return,revenu,review,risk,roadmap,role,
                rollout,rout,rule,russian,safeti,salari,sale,sampl,sandbox,scale,schedul,schema,school,
                scope,screen,script,search,season,second,secret,secur,septemb,server,servic,session,
                signup,site,skip,sleep,softwar,spanish,speed,spend,sport,sprint,staff,stage,standard,standup,
                start,state,statement,status,stop,storag,store,stori,strategi,string,structur,style,subject,
                success,summari,supervis,supplier,support,syntax,system,tabl,tag,talent,target,task,tax,team,
                templat,term,test,text,theme,theori,ticket,time,timelin,titl,token,tool,topic,total,track,
                trade,traffic,transport,travel,treasuri,triag,trust,truth,turnov,unit,updat,upgrad,usag,use,
                user,vacat,valu,vendor,version,video,view,vision,visitor,wage,wait,warehous,warn,wast,water,
                weather,web,webhook,websit,week,weekend,wiki,winter,summer,spring,autumn,word,work,workshop,
                world,year}'::text[]));
end
$$;

-- Whether a run of words with capital letters in the title of an entry is a name there: what is written so
-- within a sentence of the text, or of a title that is a sentence itself; two words and more that the text
-- writes so, too; or a word of which the text says something as of somebody ("Acme pays late"). Never in
-- German, which writes every noun so; nor what is also written in small letters, or in capitals alone.
create or replace function memoryd.is_name_in(p_title text, p_content text, p_run text) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    title constant text := regexp_replace(left(p_title, 300), '\s+', ' ', 'g');
    content constant text := regexp_replace(left(p_content, 2000), '\s+', ' ', 'g');
    name constant text := substr(title, strpos(lower(title), p_run), length(p_run));
    -- The title is written as a sentence, so its capital letters say something, but for the first one.
    sentence constant boolean := title ~
        '(?:^| )(?!(?:with|from|into|over|after|before|than|when|your|their)\M)[[:lower:]]{4,}\M';
    -- Alone: a part of a longer name is none.
    ending constant text := '(?![[:alnum:]-]| [[:upper:]])';
    within constant text := '(?:^| )\(?[[:lower:][:digit:]](?:[^ ]*[[:alnum:],)])? ' || name || ending;
    subject constant text := name || ' (is|was|has|had|will|can|cannot|must|should|does|needs|runs|uses|lives'
        '|belongs|ships|pays|wants|comes|goes|gets|stays|starts|takes|keeps|works|sends|expects|likes)\M';
    begins constant text := split_part(title, ' ', 1);
begin
    -- Without an expression that is compiled for this name alone, as far as that goes: most runs are none.
    if name !~ '^[[:upper:]]' or name ~ ' [^[:upper:]]' or name = upper(name)
       or not sentence and strpos(content, name) = 0
       or strpos(title || ' . ' || content, p_run) > 0
          and title || ' . ' || content ~ ('\m' || p_run || '\M')
       or lower(title || ' . ' || content)
          ~ ' (der|die|das|und|ist|nicht|ich|wir|ein|eine|dem|den|zu) ' then
        return false;
    end if;
    if strpos(content, name) > 0
       and (content ~ within
            or p_run ~ ' ' and content ~ ('(?:^|[.!?:] )' || name || ending)
            or p_run !~ ' ' and content ~ ('(?:^|[.!?:] )' || subject) and title !~ ('^' || subject)) then
        return true;
    end if;
    return sentence
       and case when begins <> name and memoryd.common_words(array[lower(begins)]) <> '{}'
                then lower(left(title, 1)) || substr(title, 2) else title end ~ within;
end
$$;

-- Names that titles of the team's knowledge give, of all tiers, among these runs of words: at most fifty
-- entries are looked at. As the owner: under a policy no index has an operator that could tell what it sees,
-- so the service would read all entries.
create or replace function memoryd.title_names(p_runs text[]) returns text[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    common text[];
    asked text[];
begin
    if not memoryd.caller_is_service() or not exists (select from public.shared_knowledge) then
        return '{}';
    end if;
    common := memoryd.common_words(array(select r from unnest(p_runs) r where strpos(r, ' ') = 0));
    asked := array(
        select distinct r from unnest(p_runs) r
        where r ~ '^[[:alnum:]][[:alnum:] -]+$'
          and not string_to_array(r, ' ') && '{the,a,an,of,to,in,on,at,is,it,we,i,for,and,or}'::text[]
          and not string_to_array(r, ' ') <@ common);
    return array(
        select distinct r.run
        from (select k.title, k.content, lower(regexp_replace(left(k.title, 300), '\s+', ' ', 'g')) as plain
              from public.shared_knowledge k
              where memoryd.capital_runs(k.title) && asked and k.status <> 'archived'
                and k.org_id is not distinct from memoryd.caller_org()
              limit 50) k
        join unnest(asked) r(run) on strpos(k.plain, r.run) > 0
        where memoryd.is_name_in(k.title, k.content, r.run)
        limit 20);
end
$$;

-- Names of agents (but for p_agent), clients, people and projects among these runs of words. Those that the
-- caller's organisation knows; for the service alone. As the owner, as title_names().
create or replace function memoryd.team_names(p_runs text[], p_agent text) returns text[]
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    if not memoryd.caller_is_service() then
        return '{}';
    end if;
    return array(
        (select lower(a.agent_id) from public.agents a
         where lower(a.agent_id) = any(p_runs) and a.agent_id not in ('_shared', coalesce(p_agent, ''))
         limit 20)
        union
        (select n
         from (select k.tier, k.category, k.title, k.tags from public.shared_knowledge k
               where memoryd.names_of(k.tier, k.category, k.title, k.tags) && p_runs
                 and k.tier <> 'learning' and k.status <> 'archived'
                 and k.org_id is not distinct from memoryd.caller_org()
               limit 50) k
         cross join lateral unnest(memoryd.names_of(k.tier, k.category, k.title, k.tags)) n
         where n = any(p_runs)
         limit 20)
        union
        select n from unnest(memoryd.title_names(p_runs)) n);
end
$$;

-- Words of a message that are names in the rows that the caller may find: of speakers, what the user has
-- called by name, and what is called by name in two passages or more. The last only where the message itself
-- writes them as names, in the middle of a sentence. Counted in the scopes of the agent and of
-- the user; for an end user only in their own and those of their groups, all of which they may read.
create or replace function memoryd.known_names(p_message text, p_plain text, p_agent text, p_user uuid)
returns text[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    -- German writes every noun as others write names; so there is nothing to see in capital letters.
    capitals constant boolean := not string_to_array(p_plain, ' ')
        && '{der,die,das,und,ist,nicht,ich,wir,ein,eine,dem,den,zu}'::text[];
    whose constant uuid := case when caller.privileged then p_user else caller.user_id end;
    scopes bigint[];
    written text[];
    speakers text[];
begin
    if (not caller.privileged and caller.user_id is null)
       or memoryd.memory_is_off(coalesce(whose, caller.user_id)) then
        return '{}';
    end if;
    scopes := case when caller.privileged then array_remove(array[
                       case when p_user is not null then memoryd.scope_of(p_user, null) end,
                       case when p_agent is not null then memoryd.scope_of(null, p_agent) end,
                       memoryd.scope_of(null, '_shared'), 0], null)
                   else array_remove((memoryd.scopes_asked(caller, null, null)).scopes, 0) end;
    select array_agg(distinct w) into written
    from (select (regexp_matches(
              left(p_message, 3000), '[[:lower:][:digit:]),;:''’] ([[:upper:]][[:lower:]][[:alnum:]-]+)', 'g')
          )[1] as w
          limit 40) c
    where capitals and lower(w) not in (
        'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday', 'january', 'february',
        'march', 'april', 'may', 'june', 'july', 'august', 'september', 'october', 'november', 'december');
    speakers := (memoryd.words_in(left(p_plain, 1000)))[1:60];
    return array(
        select distinct lower(s) from unnest(memoryd.speakers_named(speakers, scopes)) s
        where lower(s) not in ('user', 'agent', 'assistant', 'system', 'tool')
        union
        -- Written as when the user said them before; or of four letters and more, where the message has no
        -- capital letters at all.
        (select distinct n.key
         from (select distinct r.run
               from unnest(case when exists (select from memoryd.names n where n.user_id = whose)
                                then memoryd.word_runs(p_plain) end) r(run)) r
         join memoryd.names n on n.user_id = whose and n.key = r.run
         where strpos(p_message, n.name) > 0
            or length(n.key) > 3 and left(p_message, 3000) = lower(left(p_message, 3000))
         limit 20)
        union
        select w.name
        from (select lower(w) as name, memoryd.words_in(w) as lexemes from unnest(written) w) w
        where cardinality(w.lexemes) = 1
          and (select sum(c.rows) from memoryd.count_lexeme_rows(caller, w.lexemes, scopes) c) > 1);
end
$$;
