"""Plots as SVG: for a page with a strict Content-Security-Policy, and as files on their own."""
