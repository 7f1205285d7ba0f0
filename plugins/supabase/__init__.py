"""memoryd in a Supabase project: what its triggers and roles are told."""
