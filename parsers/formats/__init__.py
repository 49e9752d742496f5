"""Output formats, one module per family of models; `catalog.py` lists them.

`docs/add-a-format.md` shows how to add one.
"""
