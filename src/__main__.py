"""``python -m headwater``; spark-submit can run this file too, so the import is not relative."""

import sys

from headwater.app.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
