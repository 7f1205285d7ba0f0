"""Adopting the tables of an application that was built by one of the designs in docs/from/."""
