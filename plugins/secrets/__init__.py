"""Secret fields: values that rows hold only encrypted, their keys, and memoryd secrets."""
