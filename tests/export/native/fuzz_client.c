/* Enrolments and answers from anybody: mutated, cut, sealed again, handed over in rooms of their very
 * size, so that a sanitizer sees every byte that is read or written beyond.
 *
 *     fuzz_client ENROLMENT COUNT SEED
 *
 * Prints how many enrolments were taken, how many answers were, and how many messages were published. */
#include <stdio.h>
#include <stdlib.h>

#include "discreet_client.h"

enum { SLOTS = 6, MOST = 1 << 16 };

static uint64_t chance_state;
static discreet_client client;
static discreet_flight flights[SLOTS];
static unsigned char *slots[SLOTS + 64];
static size_t sizes[SLOTS + 64];
static unsigned long published;

static uint32_t chance(uint32_t below)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return (uint32_t)(chance_state >> 32) % below;
}

static int load(void *context, uint32_t slot, void *data, size_t size)
{
    (void)context;
    if (slot >= SLOTS + 64 || slots[slot] == NULL || sizes[slot] > size)
        return 0;
    memcpy(data, slots[slot], sizes[slot]);
    return (int)sizes[slot];
}

static int store(void *context, uint32_t slot, const void *data, size_t size)
{
    (void)context;
    if (slot >= SLOTS + 64 || chance(50) == 0)
        return -1;
    free(slots[slot]);
    slots[slot] = malloc(size);
    memcpy(slots[slot], data, size);
    sizes[slot] = size;
    return (int)size;
}

static int rng(void *context, void *out, size_t size)
{
    unsigned char *bytes = out;
    size_t i;
    (void)context;
    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char)chance(256);
    return (int)size;
}

static int publish(void *context, const char *topic, const void *data, size_t size)
{
    (void)context, (void)topic, (void)data, (void)size;
    published++;
    return (int)chance(4) - 1;
}

static uint32_t row(void *context, uint32_t sensor, const discreet_table *table)
{
    (void)context, (void)sensor;
    return chance(table->rows + 2);
}

/* Change some bytes, words or the length. */
static size_t mutate(unsigned char *data, size_t size, size_t room)
{
    uint32_t i, times = chance(4);
    for (i = 0; i < times && size > 0; i++) {
        const uint32_t at = chance((uint32_t)size), word = 4 * chance((uint32_t)(size / 4 + 1));
        switch (chance(5)) {
        case 0:
            data[at] = (unsigned char)chance(256);
            break;
        case 1:
            data[at] ^= (unsigned char)(1u << chance(8));
            break;
        case 2: /* a number that is small, or nearly the largest */
            if (word + 4 <= size) {
                const uint32_t value = chance(2) ? chance(300) : 0u - chance(300);
                memcpy(data + word, &value, 4);
            }
            break;
        case 3:
            size = chance(2) ? at : size;
            break;
        default:
            if (size < room && chance(4) == 0)
                data[size++] = (unsigned char)chance(256);
        }
    }
    return size;
}

/* An enrolment that was changed, with its checksum set right as a rule, in words of their own. */
static uint32_t *strange_enrolment(const unsigned char *good, size_t *size)
{
    unsigned char *data = malloc(*size + 64);
    uint32_t *words;
    memcpy(data, good, *size);
    *size = mutate(data, *size, *size + 64);
    words = malloc(*size + 4);
    memcpy(words, data, *size);
    if (chance(8) && *size >= 8 && *size % 4 == 0) {
        if (chance(2))
            words[1] = (uint32_t)(*size / 4);
        words[*size / 4 - 1] = discreet_crc(words, (uint32_t)(*size / 4 - 1));
    }
    free(data);
    words = realloc(words, *size ? *size : 1);
    return words;
}

static size_t strange_answer(unsigned char *data)
{
    const discreet_enrolment *e = &client.enrolment;
    uint32_t i, entries = chance(4);
    unsigned char *at = data;
    size_t size;
    at = discreet_item(at, 0x83, 1, 1);
    at = discreet_item(at, 0x59, DISCREET_ENTRY * entries, 2);
    for (i = 0; i < entries; i++) {
        at = discreet_put(at, chance(2) ? client.boot : chance(9), 8);
        at = discreet_put(at, client.seq - chance(4), 4);
        at = discreet_put(at, chance(2) ? 0u - chance(5) : chance(5), 4);
        at = discreet_put(at, chance(40) ? chance(2) : chance(256), 1);
    }
    *at++ = 0x48;
    size = (size_t)(at - data) + DISCREET_MAC;
    if (chance(3))
        size = mutate(data, size, MOST);
    if (chance(4) && size >= DISCREET_MAC)
        discreet_mac(e->words + DISCREET_E_KEY, client.ack_topic, data, size - DISCREET_MAC,
                     data + size - DISCREET_MAC);
    return size;
}

static unsigned long answer_some(unsigned long count, uint64_t *now)
{
    static unsigned char data[2 * MOST];
    unsigned long taken = 0;
    uint32_t ticks = chance(1u << 31);
    while (count--) {
        const size_t size = strange_answer(data);
        unsigned char *own = malloc(size ? size : 1);
        memcpy(own, data, size);
        taken += discreet_client_heard(&client, own, size) == 0;
        free(own);
        *now += chance(3) ? chance(4000) : 0;
        if (chance(2000) == 0)
            *now -= chance(100000);
        ticks += chance(3000);
        discreet_client_poll(&client, *now, ticks, ticks / 1000);
        if (chance(50) == 0)
            discreet_client_disconnected(&client);
        if (!client.up)
            discreet_client_connected(&client);
        discreet_client_taken(&client, (int)chance(4), ticks);
        client.stopped = 0;
        if (client.waiting > SLOTS)
            abort();
    }
    return taken;
}

int main(int count, char **arguments)
{
    static const discreet_port port = {NULL, load, store, rng, publish, row};
    static unsigned char good[MOST];
    FILE *file = count == 4 ? fopen(arguments[1], "rb") : NULL;
    unsigned long i, times, opened = 0, answered = 0;
    size_t length;
    uint64_t now;
    if (file == NULL)
        return 2;
    length = fread(good, 1, sizeof good, file);
    fclose(file);
    times = strtoul(arguments[2], NULL, 10);
    chance_state = 0x9E3779B97F4A7C15u ^ strtoul(arguments[3], NULL, 10);
    for (i = 0; i < times; i++) {
        discreet_enrolment told;
        size_t size = length;
        uint32_t *words = strange_enrolment(good, &size);
        if (discreet_enrolment_open(&told, words, size) == 0 && ++opened % 64 == 0 &&
            words[DISCREET_E_SENSORS] <= 32 && told.symbols <= 4096) {
            const size_t room = DISCREET_SLOT(told.symbols) > DISCREET_HEAD_BYTES
                                    ? DISCREET_SLOT(told.symbols)
                                    : DISCREET_HEAD_BYTES;
            discreet_memory memory = {NULL, NULL, flights, SLOTS, NULL, 0, 1};
            memory.parts = calloc(words[DISCREET_E_SENSORS], sizeof *memory.parts);
            memory.rows = calloc(told.symbols, sizeof *memory.rows);
            memory.buffer = calloc(room, 1);
            memory.room = room;
            now = 1000 * (discreet_pair(words + DISCREET_E_EPOCH) + chance(100000));
            if (discreet_client_start(&client, words, size, &port, &memory, now) == 0)
                answered += answer_some(20, &now);
            free(memory.parts);
            free(memory.rows);
            free(memory.buffer);
        }
        free(words);
    }
    { /* one good device, and as many answers */
        static discreet_part parts[64];
        static uint32_t rows[4096], words[MOST / 4];
        static unsigned char buffer[MOST];
        const discreet_memory memory = {parts, rows, flights, SLOTS, buffer, sizeof buffer, 1};
        memcpy(words, good, length);
        now = 1000 * (discreet_pair(words + DISCREET_E_EPOCH) + 1000);
        while (discreet_client_start(&client, words, length, &port, &memory, now))
            now++; /* storage fails now and then */
        answered += answer_some(times, &now);
    }
    printf("%lu %lu %lu\n", opened, answered, published);
    return 0;
}
