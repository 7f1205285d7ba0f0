-- How many words of what is known of the user a recall or a context begins with (null: none).

alter type memoryd.conditions add attribute profile integer;
