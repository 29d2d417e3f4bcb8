"""``python -m headwater``; also what spark-submit may be told to run, so the import is not relative."""

import sys

from headwater.app.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
