"""The pages, a file for each word of the menu. `daemon/web/app.py` lists them."""
