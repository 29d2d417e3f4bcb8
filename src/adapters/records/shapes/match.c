/* Finds the records that have the form of a template, in one pass over their bytes; see template.py and native.py.
 *
 * It knows texts and tables of automata (automaton.py), and nothing of JSON. It reads no byte outside of a record.
 */
#include <stdint.h>
#include <string.h>

/* The digest of this file, which hatch_build.py defines. */
const char *source(void) { return SOURCE; }

enum { TEXT, SIZE, TABLE, GROUP, QUOTE, HOLE }; /* the numbers of a hole; HOLE is how many there are */

/* Where the longest text that an automaton matches ends; -1 if it matches none. */
static int64_t run(const uint8_t *table, const uint8_t *data, int64_t at, int64_t end) {
    uint8_t state = 1;
    int64_t last = table[state] ? at : -1;
    while (at < end && (state = table[256 * state + data[at]])) {
        at++;
        if (table[state]) last = at;
    }
    return last;
}

static int has(const uint8_t *data, int64_t at, int64_t end, const uint8_t *text, int64_t size) {
    return size <= end - at && !memcmp(data + at, text, (size_t)size);
}

/* One text of Arrow's string views: its size, and the text itself if it is short; else its beginning and its place. */
static void view(int32_t *to, const uint8_t *data, int64_t at, int64_t size) {
    memset(to, 0, 16);
    to[0] = (int32_t)size;
    memcpy(to + 1, data + at, size <= 12 ? (size_t)size : 4);
    if (size > 12) to[3] = (int32_t)at;
}

/* Returns how many records match.
 *
 * starts, ends: where each record begins and ends in data, which has less than 2 GiB.
 * holes: HOLE numbers each: the place and the size in texts of what is before the hole, the place of its table in
 *     tables, its group or -1, and how many quotes the group has on either side.
 * tail, tail_size: the place and the size in texts of what is after the last hole.
 * matched: room for each record; gets the numbers of those that match.
 * views: room for 16 bytes a record and group; gets the texts of the groups.
 * valid: room for each record and group; gets 0 where the value is null.
 */
int64_t match(const uint8_t *data, const int64_t *starts, const int64_t *ends, int64_t records, const uint8_t *texts,
              const int64_t *holes, int64_t count, const uint8_t *tables, int64_t tail, int64_t tail_size,
              int64_t *matched, int32_t *views, uint8_t *valid) {
    int64_t found = 0;
    for (int64_t record = 0; record < records; record++) {
        int64_t at = starts[record], end = ends[record], hole = 0;
        for (; hole < count; hole++) {
            const int64_t *is = holes + HOLE * hole;
            if (!has(data, at, end, texts + is[TEXT], is[SIZE])) break;
            int64_t from = at + is[SIZE];
            at = run(tables + is[TABLE], data, from, end);
            if (at < 0) break;
            if (is[GROUP] < 0) continue;
            int64_t place = is[GROUP] * records + found;
            int null = at - from == 4 && !memcmp(data + from, "null", 4);
            int64_t size = null ? 0 : at - from - 2 * is[QUOTE];
            valid[place] = !null;
            view(views + 4 * place, data, from + is[QUOTE], size);
        }
        if (hole == count && at + tail_size == end && has(data, at, end, texts + tail, tail_size)) matched[found++] = record;
    }
    return found;
}
