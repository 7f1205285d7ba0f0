"""The pages, a file for each word of the menu. `plugins/web/app.py` lists them."""
