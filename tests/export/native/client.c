/* A device that does what the lines on standard input say, and prints what it would publish.
 *
 * One line, one act: see the switch in main. The tests drive the same acts in every language. */
#include <stdio.h>
#include <stdlib.h>

#include "discreet_client.h"

enum { SLOTS = 64, MOST = 1 << 20, ROOM = 1 << 17 };

static uint32_t words[MOST], rows[65536], given[65536];
static unsigned char line_bytes[MOST], entropy[MOST], buffer[ROOM];
static char line[2 * MOST + 64];
static discreet_client client;
static discreet_part parts[64];
static discreet_flight flights[SLOTS];
static struct {
    size_t size;
    unsigned char data[ROOM];
} storage[SLOTS + 80];
static size_t entropy_size, entropy_at;
static int storage_fails, next_id, number_messages;

static size_t unhex(const char *text, unsigned char *out)
{
    size_t count = 0;
    unsigned byte;
    while (sscanf(text + 2 * count, "%2x", &byte) == 1)
        out[count++] = (unsigned char)byte;
    return count;
}

static void print_hex(const char *what, const unsigned char *data, size_t size)
{
    printf("%s ", what);
    while (size--)
        printf("%02x", *data++);
    putchar('\n');
}

static int load(void *context, uint32_t slot, void *data, size_t size)
{
    (void)context;
    if (storage[slot].size > size)
        return -1;
    memcpy(data, storage[slot].data, storage[slot].size);
    return (int)storage[slot].size;
}

static int store(void *context, uint32_t slot, const void *data, size_t size)
{
    (void)context;
    if (storage_fails)
        return -1;
    memcpy(storage[slot].data, data, size);
    storage[slot].size = size;
    return (int)size;
}

static int rng(void *context, void *out, size_t size)
{
    (void)context;
    if (entropy_size - entropy_at < size)
        return 0;
    memcpy(out, entropy + entropy_at, size);
    entropy_at += size;
    return (int)size;
}

static int publish(void *context, const char *topic, const void *data, size_t size)
{
    (void)context;
    if (strcmp(topic, client.topic) != 0)
        abort();
    print_hex("P", data, size);
    return number_messages ? ++next_id : 0;
}

static uint32_t row(void *context, uint32_t sensor, const discreet_table *table)
{
    (void)context;
    (void)table;
    return given[sensor];
}

/* What waits: boot, seq, round and spent of each message, oldest first. */
static void print_waiting(void)
{
    const discreet_flight *last = NULL;
    uint32_t i;
    printf("W");
    for (;;) {
        const discreet_flight *next = NULL;
        for (i = 0; i < client.memory.slots; i++)
            if (flights[i].state == DISCREET_WAITING &&
                (last == NULL || discreet_is_before(last, flights + i)) &&
                (next == NULL || discreet_is_before(flights + i, next)))
                next = flights + i;
        if (next == NULL)
            break;
        i = (uint32_t)(next - flights);
        discreet_get_slot(&client, discreet_outbox_slot(&client, i),
                          DISCREET_SLOT(client.enrolment.symbols));
        printf(" %llu %u %u %u", (unsigned long long)next->boot, next->seq, next->round,
               (unsigned)discreet_get(buffer + 4 + 22, 4));
        last = next;
    }
    printf("\n");
}

static void print_state(int code)
{
    printf("S %d %u %u %u %d\n", code, client.waiting, client.given_up, client.refused,
           client.stopped);
}

int main(void)
{
    static const discreet_port port = {NULL, load, store, rng, publish, row};
    static discreet_memory memory = {parts, rows, flights, SLOTS, buffer, ROOM, 1};
    size_t size = 0, i;
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned long long now;
        unsigned ticks, uptime;
        char *at = line + 2;
        switch (line[0]) {
        case 'E': /* an enrolment */
            size = unhex(at, line_bytes);
            memcpy(words, line_bytes, size);
            printf("E %d\n", discreet_enrolment_open(&client.enrolment, words, size));
            break;
        case 'R': /* bytes for the source of randomness */
            entropy_size = unhex(at, entropy);
            entropy_at = 0;
            break;
        case 'B': /* a start, at a time */
            print_state(discreet_client_start(&client, words, size, &port, &memory, strtoull(at, NULL, 10)));
            break;
        case 'L': /* a new device, with so many slots */
            memset(storage, 0, sizeof storage);
            memory.slots = (uint32_t)atoi(at);
            break;
        case 'W':
            print_waiting();
            print_state(0);
            break;
        case 'V': /* rows of the readings of a round */
            for (i = 0; i < 65536 && *at != '\n' && *at != 0; i++)
                given[i] = (uint32_t)strtoul(at, &at, 10);
            break;
        case 'T': /* a time, ticks and an uptime */
            sscanf(at, "%llu %u %u", &now, &ticks, &uptime);
            discreet_client_poll(&client, now, ticks, uptime);
            break;
        case 'C': /* a connection */
            discreet_client_connected(&client);
            break;
        case 'D': /* its end */
            discreet_client_disconnected(&client);
            break;
        case 'A': /* an answer */
            i = unhex(at, line_bytes);
            print_state(discreet_client_heard(&client, line_bytes, i));
            break;
        case 'F': /* whether the storage fails */
            storage_fails = atoi(at);
            break;
        case 'M': { /* boot seq round spent symbols, sealed for the enrolment */
            discreet_numbers n;
            unsigned long long boot;
            int used = 0;
            sscanf(at, "%llu %u %u %u %n", &boot, &n.seq, &n.round, &n.spent, &used);
            n.boot = boot;
            client.enrolment.symbols = (uint32_t)unhex(at + used, buffer + 29);
            discreet_topic(client.topic, &client.enrolment, "/z");
            discreet_seal(&client.enrolment, client.topic, &n, buffer);
            print_hex("M", buffer, DISCREET_MESSAGE(client.enrolment.symbols));
            break;
        }
        default:
            return 3;
        }
    }
    return 0;
}
