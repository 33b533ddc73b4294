"""Datasets, one file each: where the texts of a training run come from.

A file has `documents(place)`, an iterator of train/documents.py's Document in an order that is
always the same. The name of a document assigns it to a split, so it must not depend on which other
documents there are. `place` is a local path, or empty where none was given.

REQUIRES names packages to be imported. NETWORK says that the texts come from a hub, so that their
content cannot be looked at before they are prepared. NEEDS_PLACE says that a path must be given.
"""

CONTRACT = ("documents",)
REQUIRES = ()
NETWORK = False
NEEDS_PLACE = False
