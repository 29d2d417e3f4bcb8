"""The columns with the position of a change in its database's log."""

LOG, LOG_FILE, LOG_POSITION, LOG_ROW, COMMITTED = "_log", "_log_file", "_log_position", "_log_row", "_committed"
LOG_COLUMNS = {LOG: "string", LOG_FILE: "bigint", LOG_POSITION: "bigint", LOG_ROW: "bigint", COMMITTED: "bigint"}
"""The added columns of rows with their position in a log (`RecordSpec.tells_log`):

* ``_log`` string: the name of the log: the base name of its files, and the server, if the message has them;
* ``_log_file`` bigint: the number of the file;
* ``_log_position`` bigint: the position in the file;
* ``_log_row`` bigint: the number of the row at that position; both images of an update share it;
* ``_committed`` bigint: the commit time, in milliseconds since 1970.

All except the last are null unless the message has file, position and row.
"""

IN_LOG = (LOG_FILE, LOG_POSITION, LOG_ROW)
"""The columns that order the rows of a log."""
