"""What is installed: memoryd's packages stand in this folder, so that they meet none of the same name.

In a checkout they stand beside it. `FOLDER` is where they are; `docs/plugins.md` says what else needs it.
"""

from os.path import abspath, dirname, isdir, join

_HERE = dirname(abspath(__file__))
FOLDER = _HERE if isdir(join(_HERE, "daemon")) else dirname(_HERE)
