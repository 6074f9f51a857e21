/* Runs jobs from stdin through discreet.h and writes what comes out; see tests/devices.py. */
#include <stdio.h>
#include <stdlib.h>

#include "discreet.h"

static unsigned char *entropy;
static size_t entropy_size, entropy_at;
static unsigned char stored[4 * DISCREET_RECORD + 1];
static int stored_size;

static int prepared(void *context, void *out, size_t size)
{
    (void)context;
    if (entropy_at + size > entropy_size)
        return 0;
    memcpy(out, entropy + entropy_at, size);
    entropy_at += size;
    return (int)size;
}

static int load(void *context, void *record, size_t size)
{
    (void)context;
    memcpy(record, stored, (size_t)stored_size < size ? (size_t)stored_size : size);
    return stored_size;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    memcpy(stored, record, size);
    stored_size = (int)size;
    return (int)size;
}

static int read_all(void *out, size_t size)
{
    return fread(out, 1, size, stdin) == size;
}

static void *take(size_t size)
{
    void *found = malloc(size ? size : 1);
    if (found == NULL || !read_all(found, size))
        exit(3);
    return found;
}

static int picks(void)
{
    uint32_t head[2];
    while (read_all(head, sizeof head)) {
        uint32_t *body = take(head[0]), *rows = take(4u * head[1]), *words = take(4u * head[1]), i;
        discreet_table table;
        if (discreet_open(&table, body, head[0]))
            return 4;
        for (i = 0; i < head[1]; i++)
            putchar(discreet_pick(&table, rows[i], words[i]));
        free(body);
        free(rows);
        free(words);
    }
    return 0;
}

static int releases(void)
{
    uint32_t head[4];
    while (read_all(head, sizeof head)) {
        uint32_t *body = take(head[0]), i;
        unsigned char *record = take(head[1]);
        uint32_t *history;
        discreet_sensor sensor;
        int error;
        entropy = take(entropy_size = head[2]);
        entropy_at = 0;
        stored_size = (int)head[1];
        memcpy(stored, record, head[1] < sizeof stored ? head[1] : sizeof stored);
        history = take(8u * head[3]);
        error = discreet_start(&sensor, body, head[0], prepared, load, store, NULL, 1);
        if (error)
            return 10 - error;
        for (i = 0; i < head[3]; i++) {
            int symbol = discreet_release(&sensor, history[i] & 0x7FFFFFFFu, history[head[3] + i]);
            if (symbol < 0)
                return 20 - symbol;
            if (symbol != discreet_release(&sensor, 0, history[head[3] + i] + 9))
                return 30; /* a retry must answer the same */
            putchar(symbol);
            error = history[i] >> 31 /* not delivered, and the device restarts */
                        ? discreet_start(&sensor, body, head[0], prepared, load, store, NULL, 1)
                        : discreet_delivered(&sensor);
            if (error)
                return 40 - error;
        }
        fwrite(stored, 1, (size_t)stored_size, stdout);
        free(body);
        free(record);
        free(entropy);
        free(history);
    }
    return 0;
}

/* Numbers, then texts that end in a zero byte, to rows. */
static int rows(void)
{
    uint32_t head[3], i, row;
    while (read_all(head, sizeof head)) {
        uint32_t *body = take(head[0]);
        double *numbers = take(8u * head[1]);
        char *texts = take(head[2]), *text;
        discreet_table table;
        if (discreet_open(&table, body, head[0]))
            return 4;
        for (i = 0; i < head[1]; i++) {
            uint32_t kind = discreet_kind(&table);
            row = kind == DISCREET_BINS         ? discreet_bin(&table, numbers[i])
                  : kind == DISCREET_CATEGORIES ? discreet_category_number(&table, numbers[i])
                                                : discreet_code(&table, (long)numbers[i]);
            fwrite(&row, 4, 1, stdout);
        }
        for (text = texts; text < texts + head[2]; text += strlen(text) + 1) {
            row = discreet_category(&table, text, strlen(text) + 1);
            fwrite(&row, 4, 1, stdout);
        }
        free(body);
        free(numbers);
        free(texts);
    }
    return 0;
}

/* The keyed words of a key, for rows 0 to 255. */
static int keyed(void)
{
    uint32_t key[8], row, word;
    while (read_all(key, sizeof key))
        for (row = 0; row < 256; row++) {
            word = discreet_keyed_word(key, row);
            fwrite(&word, 4, 1, stdout);
        }
    return 0;
}

static int system_source(void *context, void *out, size_t size)
{
    static FILE *random;
    (void)context;
    if (random == NULL)
        random = fopen("/dev/urandom", "rb");
    return random == NULL ? -1 : (int)fread(out, 1, size, random);
}

/* How often each symbol comes out of each row, from the system's source. */
static int counts(void)
{
    static const uint32_t before[2] = {0, 0};
    static uint32_t found[256];
    uint32_t head[2], row, i;
    while (read_all(head, sizeof head)) {
        uint32_t *body = take(head[0]);
        discreet_table table;
        discreet_source source;
        if (discreet_open(&table, body, head[0]) ||
            discreet_source_start(&source, system_source, NULL, before, NULL, 0))
            return 4;
        for (row = 0; row < table.rows; row++) {
            memset(found, 0, sizeof found);
            for (i = 0; i < head[1]; i++) {
                int symbol = discreet_draw(&table, &source, row);
                if (symbol < 0)
                    return 5;
                found[symbol]++;
            }
            fwrite(found, 4, table.columns + 1, stdout);
        }
        free(body);
    }
    return 0;
}

int main(int count, char **arguments)
{
    const char *job = count > 1 ? arguments[1] : "";
    return strcmp(job, "picks") == 0      ? picks()
           : strcmp(job, "releases") == 0 ? releases()
           : strcmp(job, "rows") == 0     ? rows()
           : strcmp(job, "keyed") == 0    ? keyed()
           : strcmp(job, "counts") == 0   ? counts()
                                          : 2;
}
