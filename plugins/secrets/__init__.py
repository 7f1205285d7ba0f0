"""Secret fields: keys that seal what rows must not show, and memoryd secrets."""
