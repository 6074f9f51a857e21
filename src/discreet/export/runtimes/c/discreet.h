/* discreet.h: draw a sensor's symbols on a microcontroller.
 *
 * C99, header only, no allocation, no floating-point arithmetic. The file that
 * `discreet export --to c` writes for a sensor holds its bundle, an array of 32-bit words:
 *
 *     discreet_sensor hall;
 *     int error = discreet_start(&hall, hall_bundle, sizeof hall_bundle, my_rng,
 *                                my_load, my_store, NULL, 0);
 *     int symbol = discreet_release(&hall, hall_row(&hall.table, reading), period);
 *     if (symbol >= 0 && my_send(symbol)) discreet_delivered(&hall);
 *
 * Every function that can fail returns a negative DISCREET_... code, and no symbol is handed
 * out then. What is promised, and what the ledger counts, is in docs/devices.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DISCREET_H
#define DISCREET_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    DISCREET_BAD_BUNDLE = -1,    /* damaged, or not a bundle of this version */
    DISCREET_NO_RANDOMNESS = -2, /* the source is absent, fails, falls short or is stuck */
    DISCREET_NO_LEDGER = -3,     /* nothing is stored; see `make_new` of discreet_start */
    DISCREET_NOT_STORED = -4,    /* the ledger could not be written, so nothing is released */
    DISCREET_NOT_STARTED = -5
};

/* Where a double has 32 bits, as on AVR boards, this does not compile: edges would be misread. */
typedef char discreet_needs_a_double_of_64_bits[sizeof(double) == 8 ? 1 : -1];

/* Fills a buffer from a cryptographic source; returns how many bytes it filled. */
typedef int (*discreet_rng)(void *out, size_t size);
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
/* Words of the record that survives a reboot. `HELD` is the symbol of the whole period or, if
 * symbols are not held that long, one that was drawn afresh and waits to be delivered. */
enum {
    DISCREET_R_MAGIC, DISCREET_R_BUNDLE, DISCREET_R_PERIOD = 3, DISCREET_R_SPENT, DISCREET_R_DRAWS,
    DISCREET_R_HELD, DISCREET_R_KEY, DISCREET_R_CRC = 15, DISCREET_RECORD
};
#define DISCREET_BUNDLE_MAGIC 0x31435344u /* "DSC1" */
#define DISCREET_LEDGER_MAGIC 0x314C5344u /* "DSL1" */
#define DISCREET_NONE 0xFFFFFFFFu         /* no limit, no finite epsilon, no symbol held */
#define DISCREET_BLOCK 8u                 /* words asked of the source at least */

enum { DISCREET_BINS, DISCREET_CATEGORIES, DISCREET_CODES };
enum { DISCREET_REPEAT_CODE, DISCREET_REPEAT_PERIOD, DISCREET_REPEAT_NEVER };

/* A bundle that has passed every check. `words` stays NULL otherwise. */
typedef struct {
    const uint32_t *words, *thresholds, *tops, *keys;
    uint32_t rows, columns; /* rows: the codes and, last, the row for no reading at all */
} discreet_table;

typedef struct {
    discreet_table table;
    discreet_rng rng; /* NULL until discreet_start has succeeded */
    discreet_store store;
    void *context;
    uint32_t record[DISCREET_RECORD];
    int pending; /* the symbol that waits to be delivered, or -1 */
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

/* Put a number's bits in an order in which integers compare like the numbers; 0 for NaN. */
static inline int discreet_number_key(double number, uint32_t *key)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    if ((bits & 0x7FFFFFFFFFFFFFFFu) > 0x7FF0000000000000u)
        return 0;
    if (bits == 0x8000000000000000u)
        bits = 0; /* minus zero */
    bits ^= (0u - (bits >> 63)) | 0x8000000000000000u;
    key[0] = (uint32_t)bits;
    key[1] = (uint32_t)(bits >> 32);
    return 1;
}

static inline int discreet_key_below(const uint32_t *a, const uint32_t *b)
{
    return a[1] < b[1] || (a[1] == b[1] && a[0] < b[0]);
}

/* For bins: how many edges lie below the number. All are compared. */
static inline uint32_t discreet_bin(const discreet_table *t, double number)
{
    uint32_t key[2], i, plain, row = 0;
    if (!discreet_number_key(number, key))
        return discreet_missing(t);
    if (discreet_kind(t) != DISCREET_BINS)
        return discreet_unreadable(t);
    plain = t->words[DISCREET_H_PLAIN];
    for (i = 0; i < plain; i++)
        row += (uint32_t)discreet_key_below(t->keys + 2 * i, key);
    return row;
}

/* For codes: the reading itself. Give discreet_missing(t) if there is none. */
static inline uint32_t discreet_code(const discreet_table *t, long code)
{
    if (discreet_kind(t) != DISCREET_CODES || code < 0 ||
        (unsigned long)code >= t->words[DISCREET_H_PLAIN])
        return discreet_unreadable(t);
    return (uint32_t)code;
}

/* For categories that are text (UTF-8). NULL is a missing reading. */
static inline uint32_t discreet_category(const discreet_table *t, const char *text)
{
    uint32_t i, plain, bytes, row = 0, found;
    size_t at = 0, length;
    int same = 1;
    if (text == NULL)
        return discreet_missing(t);
    if (discreet_kind(t) != DISCREET_CATEGORIES)
        return discreet_unreadable(t);
    plain = found = t->words[DISCREET_H_PLAIN];
    bytes = t->words[DISCREET_H_TEXT];
    length = strlen(text);
    for (i = 0; i < bytes; i++) {
        uint32_t byte = discreet_byte(t->keys + 2 * plain, i);
        same &= at <= length && byte == (unsigned char)text[at <= length ? at : length];
        at++;
        if (byte == 0) {
            if (same && row < plain)
                found = row;
            row++;
            at = 0;
            same = 1;
        }
    }
    return found;
}

/* For categories that are numbers. */
static inline uint32_t discreet_category_number(const discreet_table *t, double number)
{
    uint32_t key[2], i, plain, found;
    if (!discreet_number_key(number, key))
        return discreet_missing(t);
    if (discreet_kind(t) != DISCREET_CATEGORIES)
        return discreet_unreadable(t);
    plain = found = t->words[DISCREET_H_PLAIN];
    for (i = 0; i < plain; i++)
        if (t->keys[2 * i] == key[0] && t->keys[2 * i + 1] == key[1])
            found = i;
    return found;
}

/* --- Randomness -------------------------------------------------------------------------- */

/* Ask the source for words, at least DISCREET_BLOCK of them, and refuse what is not random. The
 * zeros are for a source that says it has filled what it has not. */
static inline int discreet_random(discreet_rng rng, uint32_t *out, uint32_t count)
{
    uint32_t i, repeats = 0;
    memset(out, 0, 4u * (size_t)count);
    if (rng == NULL || rng(out, 4u * (size_t)count) != (int)(4u * count))
        return DISCREET_NO_RANDOMNESS;
    for (i = 1; i < count; i++)
        repeats += out[i] == out[i - 1];
    return repeats > 1 ? DISCREET_NO_RANDOMNESS : 0;
}

/* The check at start-up: 64 blocks in which every bit must have been 0 and 1, and that do not
 * start alike. It finds a source that is broken, not one that is weak. */
static inline int discreet_health(discreet_rng rng)
{
    uint32_t block[DISCREET_BLOCK] = {0}, ones[DISCREET_BLOCK] = {0}, zeros[DISCREET_BLOCK] = {0};
    uint32_t first = 0, repeats = 0, i, round;
    for (round = 0; round < 64; round++) {
        if (discreet_random(rng, block, DISCREET_BLOCK))
            return DISCREET_NO_RANDOMNESS;
        repeats += round && block[0] == first;
        first = round ? first : block[0];
        for (i = 0; i < DISCREET_BLOCK; i++) {
            ones[i] |= block[i];
            zeros[i] |= ~block[i];
        }
    }
    for (i = 0; i < DISCREET_BLOCK; i++)
        repeats += 2u * (uint32_t)((ones[i] & zeros[i]) != 0xFFFFFFFFu);
    return repeats > 1 ? DISCREET_NO_RANDOMNESS : 0;
}

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
    memcpy(start + 4, key, 32);
    start[12] = row >> 4;
    memcpy(x, start, sizeof x);
    for (round = 0; round < 20; round++) {
        uint32_t shift = round & 1u;
        for (i = 0; i < 4; i++)
            discreet_quarter(x + i, x + 4 + ((i + shift) & 3u), x + 8 + ((i + 2 * shift) & 3u),
                             x + 12 + ((i + 3 * shift) & 3u));
    }
    return x[row & 15u] + start[row & 15u];
}

/* --- Rows to symbols --------------------------------------------------------------------- */

/* The symbol that a word picks in a row. Every threshold is compared, whatever the word, and
 * nothing branches on the outcome: an early exit would let the time tell the symbol. */
static inline int discreet_pick(const discreet_table *t, uint32_t row, uint32_t word)
{
    const uint32_t *threshold;
    uint32_t j, top, count = 0, excess;
    if (t->words == NULL)
        return DISCREET_BAD_BUNDLE;
    row = row < t->rows ? row : t->rows - 1;
    threshold = t->thresholds + (size_t)row * t->columns;
    top = discreet_byte(t->tops, row);
    for (j = 0; j < t->columns; j++)
        count += 1u - (uint32_t)(((uint64_t)word - threshold[j]) >> 63);
    excess = count - top; /* wraps if count < top */
    return (int)(count - (excess & ((excess >> 31) - 1u)));
}

/* Draw a fresh symbol for each row. Nothing is remembered and nothing counted. */
static inline int discreet_draw(const discreet_table *t, discreet_rng rng, const uint32_t *rows,
                                size_t count, unsigned char *symbols)
{
    const discreet_table own = *t; /* a copy: `symbols` might point to anything */
    uint32_t words[64];
    size_t i;
    if (own.words == NULL)
        return DISCREET_BAD_BUNDLE;
    while (count) {
        size_t now = count < 64 ? count : 64;
        uint32_t ask = now < DISCREET_BLOCK ? DISCREET_BLOCK : (uint32_t)now;
        if (discreet_random(rng, words, ask))
            return DISCREET_NO_RANDOMNESS;
        for (i = 0; i < now; i++)
            symbols[i] = (unsigned char)discreet_pick(&own, rows[i], words[i]);
        rows += now;
        symbols += now;
        count -= now;
    }
    return 0;
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
    next[DISCREET_R_CRC] = discreet_crc(next, DISCREET_R_CRC);
    if (s->store(s->context, next, sizeof s->record) != (int)sizeof s->record)
        return DISCREET_NOT_STORED;
    memcpy(s->record, next, sizeof s->record);
    return 0;
}

/* Take up work: check the bundle and the source, read the ledger.
 *
 * A ledger that is damaged counts as spent. One that is absent is made only if `make_new` says
 * so, as it should when a device is set up and never after; where the bundle has no budget it
 * holds nothing to lose and is always made. */
static inline int discreet_start(discreet_sensor *s, const uint32_t *bundle, size_t size,
                                 discreet_rng rng, discreet_load load, discreet_store store,
                                 void *context, int make_new)
{
    int error, found;
    memset(s, 0, sizeof *s);
    s->pending = -1;
    error = discreet_open(&s->table, bundle, size);
    if (!error)
        error = discreet_health(rng);
    if (error)
        return error;
    found = load(context, s->record, sizeof s->record);
    if (found == 0) {
        if (!make_new && bundle[DISCREET_H_BUDGET] != DISCREET_NONE)
            return DISCREET_NO_LEDGER;
        memset(s->record, 0, sizeof s->record);
    } else if (found != (int)sizeof s->record ||
               s->record[DISCREET_R_MAGIC] != DISCREET_LEDGER_MAGIC ||
               s->record[DISCREET_R_CRC] != discreet_crc(s->record, DISCREET_R_CRC)) {
        memset(s->record, 0, sizeof s->record);
        s->record[DISCREET_R_SPENT] = DISCREET_NONE;
    }
    if (discreet_repeat(&s->table) != DISCREET_REPEAT_PERIOD &&
        discreet_is_own(&s->table, s->record) && s->record[DISCREET_R_HELD] != DISCREET_NONE)
        s->pending = (int)s->record[DISCREET_R_HELD]; /* not delivered before the reboot */
    s->store = store;
    s->context = context;
    s->rng = rng;
    return 0;
}

/* What has been released so far, in millionths of a nat, by C1; DISCREET_NONE: no bound. */
static inline uint32_t discreet_spent(const discreet_sensor *s)
{
    return s->record[DISCREET_R_SPENT];
}

/* Enter a new period, or take up another bundle, with a new key. Returns 1 if it did. A clock
 * that goes back changes nothing. */
static inline int discreet_turn(const discreet_sensor *s, uint32_t *next, uint32_t period)
{
    const uint32_t *words = s->table.words;
    if (period <= next[DISCREET_R_PERIOD] && discreet_is_own(&s->table, next))
        return 0;
    if (discreet_random(s->rng, next + DISCREET_R_KEY, 8) ||
        memcmp(next + DISCREET_R_KEY, s->record + DISCREET_R_KEY, 32) == 0)
        return DISCREET_NO_RANDOMNESS;
    next[DISCREET_R_MAGIC] = DISCREET_LEDGER_MAGIC;
    next[DISCREET_R_BUNDLE] = words[DISCREET_H_MAPPING];
    next[DISCREET_R_BUNDLE + 1] = words[words[DISCREET_H_LENGTH] - 1];
    /* Another bundle may count its periods in another length: its first one is the present. */
    next[DISCREET_R_PERIOD] = period;
    next[DISCREET_R_DRAWS] = 0;
    next[DISCREET_R_HELD] = DISCREET_NONE;
    return 1;
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
 * the same, so that a retry cannot draw again, not even after a reboot. */
static inline int discreet_release(discreet_sensor *s, uint32_t row, uint32_t period)
{
    const discreet_table *t = &s->table;
    uint32_t next[DISCREET_RECORD], block[DISCREET_BLOCK], repeat;
    int turned, counted, symbol;
    if (s->rng == NULL)
        return DISCREET_NOT_STARTED;
    if (s->pending >= 0)
        return s->pending;
    repeat = discreet_repeat(t);
    row = row < t->rows ? row : t->rows - 1;
    memcpy(next, s->record, sizeof next);
    turned = discreet_turn(s, next, period);
    if (turned < 0)
        return turned;
    counted = discreet_charge(t, next, repeat);
    if (counted == 0 && repeat == DISCREET_REPEAT_PERIOD) {
        symbol = (int)next[DISCREET_R_HELD];
    } else if (counted < 0 || repeat == DISCREET_REPEAT_NEVER) {
        if (discreet_random(s->rng, block, DISCREET_BLOCK))
            return DISCREET_NO_RANDOMNESS;
        symbol = discreet_pick(t, counted < 0 ? t->rows - 1 : row, block[0]);
    } else {
        symbol = discreet_pick(t, row, discreet_keyed_word(next + DISCREET_R_KEY, row));
    }
    if (repeat != DISCREET_REPEAT_CODE)
        next[DISCREET_R_HELD] = (uint32_t)symbol; /* otherwise the key tells it again */
    /* What no reading changes is not worth a write, and may be drawn again. */
    if (counted >= 0 &&
        (turned || counted > 0 || next[DISCREET_R_HELD] != s->record[DISCREET_R_HELD]) &&
        discreet_save(s, next))
        return DISCREET_NOT_STORED;
    s->pending = symbol;
    return symbol;
}

/* The symbol has arrived; the next release answers for a new reading. If the ledger has to note
 * that and cannot, this fails, and the next release repeats the symbol. */
static inline int discreet_delivered(discreet_sensor *s)
{
    uint32_t next[DISCREET_RECORD];
    if (s->rng == NULL)
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
