/* discreet.h: draw a sensor's symbols on a microcontroller.
 *
 * C99, header only, no allocation, no floating-point arithmetic. The file that
 * `discreet export --to c` writes for a sensor holds its bundle, an array of 32-bit words:
 *
 *     discreet_sensor hall;
 *     int error = discreet_start(&hall, hall_bundle, sizeof hall_bundle, my_rng,
 *                                my_load, my_store, NULL, 0);
 *     int symbol = discreet_release(&hall, hall_row(&hall.table, reading), uptime);
 *     if (symbol >= 0 && my_send(symbol)) discreet_delivered(&hall);
 *
 * Every function that can fail returns a negative DISCREET_... code, and no symbol is handed
 * out then. What is promised, and what the ledger counts, is in docs/devices.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DISCREET_H
#define DISCREET_H

#include "discreet_random.h"

enum { /* and DISCREET_NO_RANDOMNESS, -2 */
    DISCREET_BAD_BUNDLE = -1, /* damaged, or not a bundle of this version */
    DISCREET_NO_LEDGER = -3,  /* nothing is stored; see `make_new` of discreet_start */
    DISCREET_NOT_STORED = -4, /* the ledger could not be written, so nothing is released */
    DISCREET_NOT_STARTED = -5
};

/* Where a double has 32 bits, as on AVR boards, this does not compile: edges would be misread. */
typedef char discreet_needs_a_double_of_64_bits[sizeof(double) == 8 ? 1 : -1];

/* Reads the stored record; returns its size, 0 if nothing was ever stored. */
typedef int (*discreet_load)(void *context, void *record, size_t size);
/* Stores the record for good, whole or not at all; returns `size` once it is safe. */
typedef int (*discreet_store)(void *context, const void *record, size_t size);

/* Words of a bundle's head. Thresholds, tops, keys, text, name and a CRC-32 follow. */
enum {
    DISCREET_H_MAGIC, DISCREET_H_LENGTH, DISCREET_H_MAPPING, DISCREET_H_KIND = 10, DISCREET_H_PLAIN,
    DISCREET_H_EPSILON, DISCREET_H_BUDGET, DISCREET_H_PERIOD, DISCREET_H_TEXT, DISCREET_H_NAME,
    DISCREET_HEAD
};
/* Words of the record that survives a reboot. `ELAPSED`: seconds of the present period, when the
 * uptime was `MARK`. `HELD` is the symbol of the whole period or, if symbols are not held that long,
 * one that was drawn afresh and waits to be delivered. `FIRST`: how the source began. */
enum {
    DISCREET_R_MAGIC, DISCREET_R_BUNDLE, DISCREET_R_ELAPSED = 3, DISCREET_R_MARK, DISCREET_R_SPENT,
    DISCREET_R_DRAWS, DISCREET_R_HELD, DISCREET_R_KEY, DISCREET_R_FIRST = 16, DISCREET_R_CRC = 18,
    DISCREET_RECORD
};
#define DISCREET_BUNDLE_MAGIC 0x31435344u /* "DSC1" */
#define DISCREET_LEDGER_MAGIC 0x324C5344u /* "DSL2" */
#define DISCREET_NONE 0xFFFFFFFFu         /* no limit, no finite epsilon, no symbol held */
#define DISCREET_NO_TEXT "\xFF"           /* no reading, where readings are text */
#define DISCREET_HOUR 3600u               /* no more often is a clock worth a write */

enum { DISCREET_BINS, DISCREET_CATEGORIES, DISCREET_CODES };
enum { DISCREET_REPEAT_CODE, DISCREET_REPEAT_PERIOD, DISCREET_REPEAT_NEVER };

/* A bundle that has passed every check. `words` stays NULL otherwise. */
typedef struct {
    const uint32_t *words, *thresholds, *tops, *keys;
    uint32_t rows, columns; /* rows: the codes and, last, the row for no reading at all */
} discreet_table;

typedef struct {
    discreet_table table;
    discreet_source source;
    discreet_store store; /* NULL until discreet_start has succeeded */
    void *context;
    uint32_t record[DISCREET_RECORD], stored; /* stored: `ELAPSED` as it was last written */
    int pending; /* the symbol that waits to be delivered, or -1 */
    int running; /* whether the uptime was seen since the start */
} discreet_sensor;

/* --- Bundles ----------------------------------------------------------------------------- */

/* CRC-32 of the words as little-endian bytes. */
static inline uint32_t discreet_crc(const uint32_t *words, uint32_t count)
{
    uint32_t crc = 0xFFFFFFFFu;
    while (count--) {
        int bit;
        crc ^= *words++;
        for (bit = 0; bit < 32; bit++)
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static inline uint32_t discreet_byte(const uint32_t *words, uint32_t i)
{
    return words[i >> 2] >> (8u * (i & 3u)) & 255u;
}

/* Fits no encoder where the bundle was refused, so that nothing of it is read. */
static inline uint32_t discreet_kind(const discreet_table *t)
{
    return t->words == NULL ? DISCREET_NONE : t->words[DISCREET_H_KIND] & 255u;
}

static inline uint32_t discreet_repeat(const discreet_table *t)
{
    return t->words[DISCREET_H_KIND] >> 9 & 3u;
}

/* Check a bundle; the table can be drawn from only if this returns 0. Nothing that follows
 * reads outside the words, whatever they hold: the checksum is for damage, not for malice. */
static inline int discreet_open(discreet_table *t, const uint32_t *words, size_t size)
{
    uint32_t count = (uint32_t)(size / 4), kind, flags, plain, text, name, rows, cells, tops;
    t->words = NULL;
    t->rows = 1;
    if (words == NULL || size % 4 || count <= DISCREET_HEAD ||
        words[DISCREET_H_MAGIC] != DISCREET_BUNDLE_MAGIC || words[DISCREET_H_LENGTH] != count ||
        words[count - 1] != discreet_crc(words, count - 1))
        return DISCREET_BAD_BUNDLE;
    kind = words[DISCREET_H_KIND] & 255u;
    flags = words[DISCREET_H_KIND] >> 8 & 255u; /* bit 0: missing has a code; then the repeats */
    plain = words[DISCREET_H_PLAIN];
    text = words[DISCREET_H_TEXT];
    name = words[DISCREET_H_NAME];
    t->columns = (words[DISCREET_H_KIND] >> 16) - 1;
    if (kind > DISCREET_CODES || flags > 5 || t->columns - 1u > 254u || plain > 100000u ||
        text > size || name > size || !words[DISCREET_H_PERIOD] ||
        (kind == DISCREET_CODES && !plain))
        return DISCREET_BAD_BUNDLE;
    rows = plain + 1 + (kind != DISCREET_CODES) + (flags & 1u);
    cells = rows * t->columns; /* below 2^25 */
    tops = (rows + 3) / 4;
    plain = kind == DISCREET_CODES ? 0 : 2 * plain;
    if (DISCREET_HEAD + cells + tops + plain + (text + 3) / 4 + (name + 3) / 4 + 1 != count)
        return DISCREET_BAD_BUNDLE;
    t->words = words;
    t->rows = rows;
    t->thresholds = words + DISCREET_HEAD;
    t->tops = t->thresholds + cells;
    t->keys = t->tops + tops;
    return 0;
}

/* --- Readings to rows -------------------------------------------------------------------- */

/* All of it takes the same instructions for every reading, missing ones included. */

/* The row for a reading that the encoder cannot take: the average of all rows. It is sent
 * like any other, since silence would tell. */
static inline uint32_t discreet_unreadable(const discreet_table *t)
{
    return t->rows - 1;
}

static inline uint32_t discreet_missing(const discreet_table *t)
{
    return t->words == NULL ? 0 : t->rows - 1 - (t->words[DISCREET_H_KIND] >> 8 & 1u);
}

/* Put a number's bits in an order in which integers compare like the numbers; returns 0 for NaN. */
static inline uint32_t discreet_number_key(double number, uint32_t *key)
{
    uint64_t bits;
    uint32_t low, high, magnitude, negative, is_zero;
    memcpy(&bits, &number, sizeof bits);
    low = (uint32_t)bits;
    high = (uint32_t)(bits >> 32);
    magnitude = high & 0x7FFFFFFFu;
    is_zero = discreet_equal(magnitude | low, 0); /* minus zero is zero */
    negative = discreet_hidden(high >> 31) & (1u - is_zero);
    key[0] = low ^ (0u - negative);
    key[1] = (magnitude | negative << 31) ^ ((0u - negative) | 0x80000000u);
    return 1u - (discreet_below(0x7FF00000u, magnitude) |
                 (discreet_equal(magnitude, 0x7FF00000u) & (1u - discreet_equal(low, 0))));
}

static inline uint32_t discreet_key_below(const uint32_t *a, const uint32_t *b)
{
    return discreet_below(a[1], b[1]) | (discreet_equal(a[1], b[1]) & discreet_below(a[0], b[0]));
}

/* For bins: how many edges lie below the number. All are compared. */
static inline uint32_t discreet_bin(const discreet_table *t, double number)
{
    uint32_t key[2], i, plain, row = 0, is_number = discreet_number_key(number, key);
    if (discreet_kind(t) != DISCREET_BINS)
        return discreet_unreadable(t);
    plain = t->words[DISCREET_H_PLAIN];
    for (i = 0; i < plain; i++)
        row += discreet_key_below(t->keys + 2 * i, key);
    return discreet_choose(is_number, row, discreet_missing(t));
}

/* For codes: the reading itself. Give discreet_missing(t) if there is none. */
static inline uint32_t discreet_code(const discreet_table *t, long code)
{
    const unsigned long bits = (unsigned long)code;
    const uint32_t high = (uint32_t)(bits >> 16 >> 16), low = (uint32_t)bits;
    uint32_t fits;
    if (discreet_kind(t) != DISCREET_CODES)
        return discreet_unreadable(t);
    fits = discreet_below(low, t->words[DISCREET_H_PLAIN]);
    fits &= sizeof code > 4 ? discreet_equal(high, 0) : 1u;
    return discreet_choose(fits, low, discreet_unreadable(t));
}

/* For codes of which those below 0 say that there is no reading. */
static inline uint32_t discreet_code_or_none(const discreet_table *t, long code)
{
    const uint32_t none = discreet_hidden((uint32_t)((unsigned long)code >> (8 * sizeof code - 1)));
    return discreet_choose(none, discreet_missing(t), discreet_code(t, code));
}

/* For codes that come as floating point: by the number's bits, since comparing it would branch. */
static inline uint32_t discreet_code_number(const discreet_table *t, double number)
{
    uint64_t bits;
    uint32_t key[2], is_number = discreet_number_key(number, key);
    uint32_t low, high, exponent, inside, mantissa, shift, is_zero, code, fits;
    if (discreet_kind(t) != DISCREET_CODES)
        return discreet_unreadable(t);
    memcpy(&bits, &number, sizeof bits);
    low = (uint32_t)bits;
    high = (uint32_t)(bits >> 32);
    is_zero = discreet_equal((high & 0x7FFFFFFFu) | low, 0);
    exponent = (high >> 20 & 0x7FFu) - 1023u;
    inside = discreet_below(exponent, 17); /* from 1 to 2^17, more than there may be codes */
    mantissa = 1u << 20 | (high & 0xFFFFFu);
    shift = discreet_choose(inside, 20u - exponent, 20u);
    code = discreet_choose(is_zero, 0, mantissa >> shift);
    fits = inside & discreet_equal(low | (mantissa & ((1u << shift) - 1u)), 0) & (1u - (high >> 31));
    fits = (fits | is_zero) & discreet_below(code, t->words[DISCREET_H_PLAIN]);
    return discreet_choose(is_number, discreet_choose(fits, code, discreet_unreadable(t)),
                           discreet_missing(t));
}

/* For categories that are text (UTF-8), in `room` bytes, all of which are read: take the same room
 * for every reading, with zeros behind its text. DISCREET_NO_TEXT is a missing reading. */
static inline uint32_t discreet_category(const discreet_table *t, const char *text, size_t room)
{
    const unsigned char *read = (const unsigned char *)text;
    uint32_t i, plain, bytes, row = 0, found, same = 1;
    size_t at = 0;
    if (discreet_kind(t) != DISCREET_CATEGORIES || room == 0)
        return discreet_unreadable(t);
    plain = found = t->words[DISCREET_H_PLAIN];
    bytes = t->words[DISCREET_H_TEXT];
    for (i = 0; i < bytes; i++) {
        const uint32_t byte = discreet_byte(t->keys + 2 * plain, i);
        same &= at < room ? discreet_equal(byte, read[at]) : (uint32_t)(at == room && byte == 0);
        at++;
        if (byte == 0) { /* the end of a category, which is no secret */
            found = discreet_choose(row < plain ? same : 0, row, found);
            row++;
            at = 0;
            same = 1;
        }
    }
    return discreet_choose(discreet_equal(read[0], 255u), discreet_missing(t), found);
}

/* For categories that are numbers. */
static inline uint32_t discreet_category_number(const discreet_table *t, double number)
{
    uint32_t key[2], i, plain, found, is_number = discreet_number_key(number, key);
    if (discreet_kind(t) != DISCREET_CATEGORIES)
        return discreet_unreadable(t);
    plain = found = t->words[DISCREET_H_PLAIN];
    for (i = 0; i < plain; i++)
        found = discreet_choose(discreet_equal(t->keys[2 * i], key[0]) &
                                    discreet_equal(t->keys[2 * i + 1], key[1]),
                                i, found);
    return discreet_choose(is_number, found, discreet_missing(t));
}

/* --- Keyed words ------------------------------------------------------------------------- */

static inline void discreet_quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    int step;
    static const unsigned char turns[4] = {16, 12, 8, 7};
    for (step = 0; step < 4; step += 2) {
        *a += *b;
        *d ^= *a;
        *d = *d << turns[step] | *d >> (32 - turns[step]);
        *c += *d;
        *b ^= *c;
        *b = *b << turns[step + 1] | *b >> (32 - turns[step + 1]);
    }
}

/* The word of a row under a key: the ChaCha20 keystream (RFC 8439, nonce 0), word `row`. */
static inline uint32_t discreet_keyed_word(const uint32_t *key, uint32_t row)
{
    uint32_t start[16] = {0x61707865u, 0x3320646Eu, 0x79622D32u, 0x6B206574u}, x[16], i, round;
    uint32_t word = 0;
    memcpy(start + 4, key, 32);
    start[12] = row >> 4;
    memcpy(x, start, sizeof x);
    for (round = 0; round < 20; round++) {
        uint32_t shift = round & 1u;
        for (i = 0; i < 4; i++)
            discreet_quarter(x + i, x + 4 + ((i + shift) & 3u), x + 8 + ((i + 2 * shift) & 3u),
                             x + 12 + ((i + 3 * shift) & 3u));
    }
    for (i = 0; i < 16; i++) /* all are read, whatever the row */
        word |= (x[i] + start[i]) & (0u - discreet_equal(i, row & 15u));
    return word;
}

/* --- Rows to symbols --------------------------------------------------------------------- */

/* The symbol that a word picks in a row. Every threshold of every row is read and compared,
 * whatever row and word, and nothing branches on the outcome: an early exit would let the time tell
 * the symbol, and a cache the row. */
static inline int discreet_pick(const discreet_table *t, uint32_t row, uint32_t word)
{
    const uint32_t *threshold = t->thresholds;
    uint32_t i, j, top = 0, count = 0;
    if (t->words == NULL)
        return DISCREET_BAD_BUNDLE;
    row = discreet_choose(discreet_below(row, t->rows), row, t->rows - 1);
    for (i = 0; i < t->rows; i++) {
        const uint32_t here = discreet_equal(i, row);
        for (j = 0; j < t->columns; j++)
            count += here & (1u - discreet_below(word, *threshold++));
        top |= discreet_byte(t->tops, i) & (0u - here);
    }
    return (int)discreet_choose(discreet_below(top, count), top, count);
}

/* Draw a fresh symbol for a row. Nothing is remembered and nothing counted. */
static inline int discreet_draw(const discreet_table *t, discreet_source *source, uint32_t row)
{
    uint32_t word;
    if (t->words == NULL)
        return DISCREET_BAD_BUNDLE;
    if (discreet_random(source, &word, 1))
        return DISCREET_NO_RANDOMNESS;
    return discreet_pick(t, row, word);
}

/* --- A sensor: ledger, memory, release --------------------------------------------------- */

/* Whether a record was written for this bundle; its checksum stands for policy and all. */
static inline int discreet_is_own(const discreet_table *t, const uint32_t *record)
{
    return record[DISCREET_R_MAGIC] == DISCREET_LEDGER_MAGIC &&
           record[DISCREET_R_BUNDLE] == t->words[DISCREET_H_MAPPING] &&
           record[DISCREET_R_BUNDLE + 1] == t->words[t->words[DISCREET_H_LENGTH] - 1] &&
           record[DISCREET_R_HELD] + 1u <= t->columns + 1u; /* none, or one of its symbols */
}

/* Make a record the present one, once it is stored. */
static inline int discreet_save(discreet_sensor *s, uint32_t *next)
{
    memcpy(next + DISCREET_R_FIRST, s->source.first, sizeof s->source.first);
    next[DISCREET_R_CRC] = discreet_crc(next, DISCREET_R_CRC);
    if (s->store(s->context, next, sizeof s->record) != (int)sizeof s->record)
        return DISCREET_NOT_STORED;
    memcpy(s->record, next, sizeof s->record);
    s->stored = next[DISCREET_R_ELAPSED];
    return 0;
}

/* Read the record. One that is damaged counts as spent. */
static inline int discreet_read(discreet_sensor *s, discreet_load load, int make_new)
{
    uint32_t *record = s->record;
    const int found = load(s->context, record, sizeof s->record);
    if (found == 0 && !make_new && s->table.words[DISCREET_H_BUDGET] != DISCREET_NONE)
        return DISCREET_NO_LEDGER;
    if (found == (int)sizeof s->record && record[DISCREET_R_MAGIC] == DISCREET_LEDGER_MAGIC &&
        record[DISCREET_R_CRC] == discreet_crc(record, DISCREET_R_CRC))
        return 0;
    memset(record, 0, sizeof s->record);
    record[DISCREET_R_SPENT] = found == 0 ? 0 : DISCREET_NONE;
    return 0;
}

/* Take up work: check the bundle, read the ledger, test the source.
 *
 * `context` is handed to rng, load and store. A ledger that is damaged counts as spent. One that is
 * absent is made only if `make_new` says so, as it should when a device is set up and never after;
 * where the bundle has no budget it holds nothing to lose and is always made. */
static inline int discreet_start(discreet_sensor *s, const uint32_t *bundle, size_t size,
                                 discreet_rng rng, discreet_load load, discreet_store store,
                                 void *context, int make_new)
{
    int error;
    memset(s, 0, sizeof *s);
    s->pending = -1;
    s->context = context;
    error = discreet_open(&s->table, bundle, size);
    if (!error)
        error = discreet_read(s, load, make_new);
    if (!error)
        error = discreet_source_start(&s->source, rng, context, s->record + DISCREET_R_FIRST,
                                      s->record + DISCREET_R_KEY, 32);
    if (error)
        return error;
    if (discreet_repeat(&s->table) != DISCREET_REPEAT_PERIOD &&
        discreet_is_own(&s->table, s->record) && s->record[DISCREET_R_HELD] != DISCREET_NONE)
        s->pending = (int)s->record[DISCREET_R_HELD]; /* not delivered before the reboot */
    s->stored = s->record[DISCREET_R_ELAPSED];
    s->store = store;
    return 0;
}

/* What has been released so far, in millionths of a nat, by C1; DISCREET_NONE: no bound. */
static inline uint32_t discreet_spent(const discreet_sensor *s)
{
    return s->record[DISCREET_R_SPENT];
}

/* Count how long the period has lasted, never more than has passed. After a start the uptime may
 * have begun again: then what it says has passed, and what was before is not known. */
static inline void discreet_pass(discreet_sensor *s, uint32_t uptime)
{
    uint32_t *elapsed = s->record + DISCREET_R_ELAPSED, mark = s->record[DISCREET_R_MARK], more;
    more = uptime >= mark ? uptime - mark : s->running ? 0 : uptime;
    *elapsed = *elapsed > DISCREET_NONE - more ? DISCREET_NONE : *elapsed + more;
    s->record[DISCREET_R_MARK] = uptime;
    s->running = 1;
}

/* Enter a new period, or take up another bundle, with a new key. Returns 1 if it did. */
static inline int discreet_turn(discreet_sensor *s, uint32_t *next)
{
    const uint32_t *words = s->table.words;
    if (next[DISCREET_R_ELAPSED] < words[DISCREET_H_PERIOD] && discreet_is_own(&s->table, next))
        return 0;
    if (discreet_random(&s->source, next + DISCREET_R_KEY, 8))
        return DISCREET_NO_RANDOMNESS;
    next[DISCREET_R_MAGIC] = DISCREET_LEDGER_MAGIC;
    next[DISCREET_R_BUNDLE] = words[DISCREET_H_MAPPING];
    next[DISCREET_R_BUNDLE + 1] = words[words[DISCREET_H_LENGTH] - 1];
    next[DISCREET_R_ELAPSED] = 0;
    next[DISCREET_R_DRAWS] = 0;
    next[DISCREET_R_HELD] = DISCREET_NONE;
    return 1;
}

/* Whether the clock alone is worth a write: a power cut may take an eighth of a period, or an hour. */
static inline int discreet_is_late(const discreet_sensor *s)
{
    const uint32_t eighth = s->table.words[DISCREET_H_PERIOD] / 8;
    return s->record[DISCREET_R_ELAPSED] - s->stored >=
           (eighth < DISCREET_HOUR ? DISCREET_HOUR : eighth);
}

/* Count one release. Returns 1 if it was counted, 0 if it is free, -1 if it is not affordable.
 * Whether it is counted depends on the schedule alone, never on the reading. */
static inline int discreet_charge(const discreet_table *t, uint32_t *next, uint32_t repeat)
{
    uint32_t epsilon = t->words[DISCREET_H_EPSILON], budget = t->words[DISCREET_H_BUDGET];
    uint32_t spent = next[DISCREET_R_SPENT];
    if ((repeat == DISCREET_REPEAT_CODE && next[DISCREET_R_DRAWS] >= t->rows) ||
        (repeat == DISCREET_REPEAT_PERIOD && next[DISCREET_R_HELD] != DISCREET_NONE))
        return 0;
    if (budget != DISCREET_NONE && (epsilon > budget || spent > budget - epsilon))
        return -1;
    next[DISCREET_R_SPENT] = spent > DISCREET_NONE - epsilon ? DISCREET_NONE : spent + epsilon;
    next[DISCREET_R_DRAWS] += next[DISCREET_R_DRAWS] != DISCREET_NONE;
    return 1;
}

/* Return the symbol to send for a reading. Until discreet_delivered is called the answer stays
 * the same, so that a retry cannot draw again, not even after a reboot.
 *
 * `uptime`: seconds on a clock that nobody else can set: since power came on, best with the time
 * asleep. It may begin again with every start. Never the time of day, which a network sets. */
static inline int discreet_release(discreet_sensor *s, uint32_t row, uint32_t uptime)
{
    const discreet_table *t = &s->table;
    uint32_t next[DISCREET_RECORD], repeat;
    int turned, counted, symbol;
    if (s->store == NULL)
        return DISCREET_NOT_STARTED;
    if (s->pending >= 0)
        return s->pending;
    repeat = discreet_repeat(t);
    discreet_pass(s, uptime);
    memcpy(next, s->record, sizeof next);
    turned = discreet_turn(s, next);
    if (turned < 0)
        return turned;
    counted = discreet_charge(t, next, repeat);
    if (counted == 0 && repeat == DISCREET_REPEAT_PERIOD) {
        symbol = (int)next[DISCREET_R_HELD];
    } else if (counted < 0 || repeat == DISCREET_REPEAT_NEVER) {
        symbol = discreet_draw(t, &s->source, counted < 0 ? t->rows - 1 : row);
        DISCREET_PUBLIC(symbol);
        if (symbol < 0)
            return symbol;
    } else {
        row = discreet_choose(discreet_below(row, t->rows), row, t->rows - 1);
        symbol = discreet_pick(t, row, discreet_keyed_word(next + DISCREET_R_KEY, row));
    }
    if (repeat != DISCREET_REPEAT_CODE)
        next[DISCREET_R_HELD] = (uint32_t)symbol; /* otherwise the key tells it again */
    /* What no reading changes is not worth a write, and may be drawn again. */
    if (counted >= 0 && (turned || counted > 0 || discreet_is_late(s)) && discreet_save(s, next))
        return DISCREET_NOT_STORED;
    s->pending = symbol;
    return symbol;
}

/* The symbol has arrived; the next release answers for a new reading. If the ledger has to note
 * that and cannot, this fails, and the next release repeats the symbol. */
static inline int discreet_delivered(discreet_sensor *s)
{
    uint32_t next[DISCREET_RECORD];
    if (s->store == NULL)
        return DISCREET_NOT_STARTED;
    memcpy(next, s->record, sizeof next);
    next[DISCREET_R_HELD] = DISCREET_NONE;
    if (discreet_repeat(&s->table) != DISCREET_REPEAT_PERIOD && s->pending >= 0 &&
        s->record[DISCREET_R_HELD] != DISCREET_NONE && discreet_is_own(&s->table, s->record) &&
        discreet_save(s, next))
        return DISCREET_NOT_STORED;
    s->pending = -1;
    return 0;
}

#endif
