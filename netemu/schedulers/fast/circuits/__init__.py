"""The choice of circuits (``netemu.circuits.choosing``) for many coflows; no rates are set here.

Open ``matching.py`` first.
"""
