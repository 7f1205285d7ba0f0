"""How well recall answers the golden questions of a store: asked, counted, compared with an earlier run. Prints nothing."""
