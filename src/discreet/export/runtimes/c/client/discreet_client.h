/* discreet_client.h: a device of a discreet site, over any MQTT library.
 *
 * C99, header only, no allocation. docs/protocol.md has every byte and every rule. `discreet enroll
 * NAME --to c` writes the words of an enrolment, tables included; the platform supplies clock, storage,
 * randomness, TLS and MQTT (`discreet_port`). In short:
 *
 *     discreet_client_start(&client, enrolment, sizeof enrolment, &port, &memory, now);
 *     connect with what client.enrolment holds: host, ca, certificate, private_key and port,
 *     subscribe to client.ack_topic (QoS 0), then: discreet_client_connected(&client);
 *     for every message on it: discreet_client_heard(&client, data, size);
 *     again and again: sleep at most discreet_client_poll(&client, now, ticks, uptime) milliseconds;
 *
 * One task at a time may call any of it. Every function that can fail returns a negative DISCREET_...
 * code.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DISCREET_CLIENT_H
#define DISCREET_CLIENT_H

#include "discreet_protocol.h"

/* --- The client -------------------------------------------------------------------------- */

enum { DISCREET_HEAD_BYTES = 24, DISCREET_SLOT_FRAME = 8 };
#define DISCREET_SLOT(symbols) (DISCREET_SLOT_FRAME + DISCREET_MESSAGE(symbols)) /* bytes */

/* What the platform supplies; `context` is handed to all of it. Slots of the storage survive a
 * reboot: slot 0 and one for each sensor's ledger first, then the outbox. */
typedef struct {
    void *context;
    /* Reads a slot into `data`; returns its size, 0 if nothing was ever stored there. */
    int (*load)(void *context, uint32_t slot, void *data, size_t size);
    /* Stores a slot for good, whole or not at all; returns `size` once it is safe. */
    int (*store)(void *context, uint32_t slot, const void *data, size_t size);
    discreet_rng rng;
    /* Publishes at QoS 1. Returns a number above 0 that discreet_client_taken gets once the broker
     * has it, 0 if that is never said, or below 0 if it cannot now. */
    int (*publish)(void *context, const char *topic, const void *data, size_t size);
    /* Returns the row for the reading of a sensor in the round that ends now. */
    uint32_t (*row)(void *context, uint32_t sensor, const discreet_table *table);
} discreet_port;

typedef struct {
    uint64_t boot;
    uint32_t seq, round, due, pause;
    int id;
    unsigned char state, sent;
} discreet_flight;
enum { DISCREET_FREE, DISCREET_WAITING, DISCREET_DONE };

typedef struct discreet_client discreet_client;

/* A sensor, and where its ledger lies. */
typedef struct {
    discreet_sensor sensor;
    discreet_client *client;
    uint32_t slot;
} discreet_part;

/* What the caller lends, for as long as the client lives. */
typedef struct {
    discreet_part *parts;     /* one for each sensor */
    uint32_t *rows;           /* one for each symbol of a message */
    discreet_flight *flights; /* one for each slot of the outbox */
    uint32_t slots;           /* at least 2 */
    unsigned char *buffer;    /* DISCREET_SLOT(symbols) bytes, at least DISCREET_HEAD_BYTES */
    size_t room;
    int make_new; /* 1 on the day a device is set up, 0 ever after: see discreet_start */
} discreet_memory;

struct discreet_client {
    discreet_enrolment enrolment;
    discreet_port port;
    discreet_memory memory;
    char topic[DISCREET_TOPIC], ack_topic[DISCREET_TOPIC];
    uint64_t boot, next_round, round, publish_at;
    uint32_t seq, window, retry; /* under way at most; milliseconds to the first retry */
    uint32_t waiting, given_up, refused;
    uint32_t seen, doubted, answerable; /* ticks; milliseconds in doubt of the clock, of them connected */
    int up, running, doubt, stopped, error; /* error: why the last batch was not released */
};

static inline void discreet_topic(char *to, const discreet_enrolment *e, const char *end)
{
    const char *parts[5];
    int i;
    parts[0] = "discreet/v1/";
    parts[1] = e->site;
    parts[2] = "/";
    parts[3] = e->client;
    parts[4] = end;
    for (i = 0; i < 5; i++) {
        const size_t length = strlen(parts[i]);
        memcpy(to, parts[i], length);
        to += length;
    }
    *to = 0;
}

static inline uint32_t discreet_crc_bytes(const unsigned char *bytes, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    while (size--) {
        int bit;
        crc ^= *bytes++;
        for (bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

/* Where slots lie: the head, the ledgers, the outbox. */
static inline uint32_t discreet_outbox_slot(const discreet_client *c, uint32_t i)
{
    return 1 + c->enrolment.words[DISCREET_E_SENSORS] + i;
}

/* Store what lies in the buffer after its first four bytes and before its last four. */
static inline int discreet_put_slot(discreet_client *c, uint32_t slot, const char *magic, size_t size)
{
    unsigned char *data = c->memory.buffer;
    uint32_t crc, i;
    memcpy(data, magic, 4);
    crc = discreet_crc_bytes(data, size - 4);
    for (i = 0; i < 4; i++)
        data[size - 4 + i] = (unsigned char)(crc >> (24 - 8 * i));
    return c->port.store(c->port.context, slot, data, size) == (int)size ? 0 : DISCREET_BAD_STORAGE;
}

/* Read a slot into the buffer; returns whether it is sound. */
static inline int discreet_get_slot(discreet_client *c, uint32_t slot, size_t size)
{
    unsigned char *data = c->memory.buffer;
    return c->port.load(c->port.context, slot, data, size) == (int)size &&
           discreet_get(data + size - 4, 4) == discreet_crc_bytes(data, size - 4);
}

/* The head: number of the start, first round without a message. */
static inline int discreet_put_head(discreet_client *c)
{
    unsigned char *at = discreet_put(c->memory.buffer + 4, c->boot, 8);
    discreet_put(at, c->next_round, 8);
    return discreet_put_slot(c, 0, "DSH1", DISCREET_HEAD_BYTES);
}

static inline void discreet_get_head(discreet_client *c)
{
    const unsigned char *data = c->memory.buffer;
    if (!discreet_get_slot(c, 0, DISCREET_HEAD_BYTES) || memcmp(data, "DSH1", 4) != 0)
        return;
    c->boot = discreet_get(data + 4, 8);
    c->next_round = discreet_get(data + 12, 8);
}

/* Take up what waits in a slot of the outbox; a message that nobody could authenticate is given up. */
static inline void discreet_take_up(discreet_client *c, uint32_t i)
{
    const size_t size = DISCREET_SLOT(c->enrolment.symbols);
    const unsigned char *data = c->memory.buffer, *message = data + 4;
    discreet_flight *flight = c->memory.flights + i;
    memset(flight, 0, sizeof *flight);
    if (!discreet_get_slot(c, discreet_outbox_slot(c, i), size) || memcmp(data, "DSO", 3) != 0)
        return;
    flight->boot = discreet_get(message + 3, 8);
    flight->seq = (uint32_t)discreet_get(message + 12, 4);
    flight->round = (uint32_t)discreet_get(message + 17, 4);
    flight->pause = c->retry;
    if (data[3] == 'w' && discreet_is_ours(&c->enrolment, c->topic, message)) {
        flight->state = DISCREET_WAITING;
        c->waiting++;
    } else {
        flight->state = DISCREET_DONE;
        c->given_up += data[3] == 'w';
    }
    if (data[3] != 'f' && (uint64_t)flight->round + c->enrolment.words[DISCREET_E_BATCH] > c->next_round)
        c->next_round = (uint64_t)flight->round + c->enrolment.words[DISCREET_E_BATCH];
}

static inline int discreet_part_load(void *context, void *record, size_t size)
{
    const discreet_part *part = (const discreet_part *)context;
    return part->client->port.load(part->client->port.context, part->slot, record, size);
}

static inline int discreet_part_store(void *context, const void *record, size_t size)
{
    const discreet_part *part = (const discreet_part *)context;
    return part->client->port.store(part->client->port.context, part->slot, record, size);
}

static inline int discreet_part_rng(void *context, void *out, size_t size)
{
    const discreet_part *part = (const discreet_part *)context;
    return part->client->port.rng(part->client->port.context, out, size);
}

/* What the fullest of the ledgers has counted. */
static inline uint32_t discreet_client_spent(const discreet_client *c)
{
    uint32_t i, most = 0;
    for (i = 0; i < c->enrolment.words[DISCREET_E_SENSORS]; i++)
        if (discreet_spent(&c->memory.parts[i].sensor) > most)
            most = discreet_spent(&c->memory.parts[i].sensor);
    return most;
}

/* Count what was released before the state of the device was lost: which sensor released it is not
 * known, so that all count it. */
static inline int discreet_client_floor(discreet_client *c)
{
    uint32_t next[DISCREET_RECORD], i, floor = c->enrolment.words[DISCREET_E_SPENT];
    if (discreet_client_spent(c) >= floor)
        return 0;
    for (i = 0; i < c->enrolment.words[DISCREET_E_SENSORS]; i++) {
        discreet_sensor *sensor = &c->memory.parts[i].sensor;
        memcpy(next, sensor->record, sizeof next);
        next[DISCREET_R_MAGIC] = DISCREET_LEDGER_MAGIC;
        next[DISCREET_R_SPENT] = floor;
        if (discreet_save(sensor, next))
            return DISCREET_NOT_STORED;
    }
    return 0;
}

static inline int discreet_client_sensors(discreet_client *c)
{
    const uint32_t *table = c->enrolment.tables;
    uint32_t i;
    for (i = 0; i < c->enrolment.words[DISCREET_E_SENSORS]; i++, table += table[1]) {
        discreet_part *part = c->memory.parts + i;
        int error;
        part->client = c;
        part->slot = 1 + i;
        error = discreet_start(&part->sensor, table, 4 * (size_t)table[1], discreet_part_rng,
                               discreet_part_load, discreet_part_store, part, c->memory.make_new);
        if (!error && part->sensor.pending >= 0)
            error = discreet_delivered(&part->sensor); /* it was never sent, and is not needed */
        if (error)
            return error;
    }
    return discreet_client_floor(c);
}

/* Take up work: check the enrolment, start the sensors, number this start, look what waits.
 *
 * `now`: UTC in milliseconds, 0 if it is not known yet. Nothing is drawn before discreet_client_poll
 * gets one. */
static inline int discreet_client_start(discreet_client *c, const uint32_t *enrolment, size_t size,
                                        const discreet_port *port, const discreet_memory *memory,
                                        uint64_t now)
{
    uint32_t i;
    int error;
    memset(c, 0, sizeof *c);
    c->port = *port;
    c->memory = *memory;
    c->window = 16;
    c->retry = 2000;
    error = discreet_enrolment_open(&c->enrolment, enrolment, size);
    if (!error && (memory->slots < 2 || memory->room < DISCREET_SLOT(c->enrolment.symbols) ||
                   memory->room < DISCREET_HEAD_BYTES))
        error = DISCREET_NO_ROOM;
    if (!error)
        error = discreet_client_sensors(c);
    if (error)
        return error;
    discreet_topic(c->topic, &c->enrolment, "/z");
    discreet_topic(c->ack_topic, &c->enrolment, "/ack");
    discreet_get_head(c);
    for (i = 0; i < memory->slots; i++)
        discreet_take_up(c, i);
    c->boot++;
    if (c->boot < discreet_pair(enrolment + DISCREET_E_BOOT))
        c->boot = discreet_pair(enrolment + DISCREET_E_BOOT);
    if (c->boot < now / 1000) /* a device whose storage was lost must not begin at 1 again */
        c->boot = now / 1000;
    return c->boot >> 63 ? DISCREET_BAD_STORAGE : discreet_put_head(c);
}

/* --- Rounds ------------------------------------------------------------------------------ */

static inline int discreet_is_before(const discreet_flight *a, const discreet_flight *b)
{
    return a->boot < b->boot || (a->boot == b->boot && a->seq < b->seq);
}

/* The slot for the next message: a free one, else the oldest that is done, else the oldest. The
 * newest stays, since it says which rounds have a message. */
static inline uint32_t discreet_choose_slot(const discreet_client *c)
{
    const discreet_flight *flights = c->memory.flights;
    static const unsigned char order[3] = {0, 2, 1}; /* free, waiting, done */
    uint32_t i, newest = 0, best = DISCREET_NONE;
    for (i = 1; i < c->memory.slots; i++)
        if (flights[newest].state == DISCREET_FREE ||
            (flights[i].state != DISCREET_FREE && discreet_is_before(flights + newest, flights + i)))
            newest = i;
    for (i = 0; i < c->memory.slots; i++)
        if ((i != newest || flights[i].state == DISCREET_FREE) &&
            (best == DISCREET_NONE || order[flights[i].state] < order[flights[best].state] ||
             (flights[i].state == flights[best].state &&
              discreet_is_before(flights + i, flights + best))))
            best = i;
    return best;
}

/* Draw the symbols of a batch into the buffer. */
static inline int discreet_client_draw(discreet_client *c, uint32_t uptime)
{
    const uint32_t sensors = c->enrolment.words[DISCREET_E_SENSORS];
    unsigned char *symbols = c->memory.buffer + 4 + 29;
    uint32_t i, t;
    for (t = 0; t < sensors; t++)
        for (i = t; i < c->enrolment.symbols; i += sensors) {
            discreet_sensor *sensor = &c->memory.parts[t].sensor;
            const int symbol = discreet_release(sensor, c->memory.rows[i], uptime);
            if (symbol < 0)
                return symbol;
            sensor->pending = -1; /* the outbox keeps it from here on */
            symbols[i] = (unsigned char)symbol;
        }
    return 0;
}

/* Draw, seal and store the message of a batch. Its number is used once, whether or not it could be
 * stored: a storage that failed may still have it. */
static inline int discreet_client_release(discreet_client *c, uint64_t first, uint32_t uptime)
{
    const uint32_t slot = discreet_choose_slot(c), batch = c->enrolment.words[DISCREET_E_BATCH];
    discreet_flight *flight = c->memory.flights + slot;
    discreet_numbers numbers;
    int error = discreet_client_draw(c, uptime);
    if (error)
        return error;
    numbers.boot = c->boot;
    numbers.seq = c->seq++;
    numbers.round = (uint32_t)first;
    numbers.spent = discreet_client_spent(c);
    discreet_seal(&c->enrolment, c->topic, &numbers, c->memory.buffer + 4);
    if (flight->state == DISCREET_WAITING) { /* no room: the oldest is given up */
        c->given_up++;
        c->waiting--;
    }
    memset(flight, 0, sizeof *flight);
    c->next_round = first + batch;
    if (discreet_put_slot(c, discreet_outbox_slot(c, slot), "DSOw",
                          DISCREET_SLOT(c->enrolment.symbols)))
        return DISCREET_BAD_STORAGE;
    flight->boot = numbers.boot;
    flight->seq = numbers.seq;
    flight->round = numbers.round;
    flight->pause = c->retry;
    flight->state = DISCREET_WAITING;
    c->waiting++;
    return 0;
}

/* Go on with an earlier round, because the clock was ahead: what was drawn for a time that has not
 * come is given up, and numbers begin again with a new start. */
static inline int discreet_turn_back(discreet_client *c, uint64_t present)
{
    uint32_t i;
    for (i = 0; i < c->memory.slots; i++) {
        discreet_flight *flight = c->memory.flights + i;
        if (flight->state == DISCREET_FREE || flight->round < present)
            continue;
        memset(c->memory.buffer, 0, DISCREET_SLOT(c->enrolment.symbols));
        if (discreet_put_slot(c, discreet_outbox_slot(c, i), "DSOf",
                              DISCREET_SLOT(c->enrolment.symbols)))
            return DISCREET_BAD_STORAGE;
        c->given_up += flight->state == DISCREET_WAITING;
        c->waiting -= flight->state == DISCREET_WAITING;
        memset(flight, 0, sizeof *flight);
    }
    c->boot++;
    c->seq = 0;
    c->next_round = present;
    return discreet_put_head(c);
}

enum { DISCREET_BACK = 3, DISCREET_ANSWERS = 5 }; /* rounds */
#define DISCREET_OFFLINE 600000u                  /* milliseconds without a connection */
#define DISCREET_SLOT_MS 200u                     /* from the end of a batch to its message, at most */

/* Whether what waits for later rounds is kept for now. A clock that is behind after a start is set soon,
 * or the site takes what waits; it does not if the clock was ahead before. */
static inline int discreet_may_be_behind(discreet_client *c, uint64_t present, uint32_t ticks)
{
    const uint32_t passed = c->doubt ? ticks - c->seen : 0;
    uint32_t i, later = 0;
    c->doubted = c->doubt ? c->doubted + passed : 0;
    c->answerable = c->doubt ? c->answerable + (c->up ? passed : 0) : 0;
    c->doubt = 1;
    c->seen = ticks;
    for (i = 0; i < c->memory.slots; i++)
        later += c->memory.flights[i].state == DISCREET_WAITING && c->memory.flights[i].round >= present;
    return later && c->doubted < DISCREET_OFFLINE &&
           c->answerable < DISCREET_ANSWERS * c->enrolment.words[DISCREET_E_INTERVAL];
}

/* Have no reading in the rounds of a batch that has begun. */
static inline void discreet_clear_rows(discreet_client *c)
{
    const uint32_t sensors = c->enrolment.words[DISCREET_E_SENSORS];
    uint32_t i;
    for (i = 0; i < c->enrolment.symbols; i++)
        c->memory.rows[i] = discreet_missing(&c->memory.parts[i % sensors].sensor.table);
}

static inline void discreet_read_rows(discreet_client *c)
{
    const uint32_t sensors = c->enrolment.words[DISCREET_E_SENSORS];
    uint32_t t, *rows = c->memory.rows + sensors * (c->round % c->enrolment.words[DISCREET_E_BATCH]);
    for (t = 0; t < sensors; t++)
        rows[t] = c->port.row(c->port.context, t, &c->memory.parts[t].sensor.table);
}

/* Follow the clock from round to round; draw where a batch has ended. */
static inline int discreet_client_rounds(discreet_client *c, uint64_t now, uint32_t ticks,
                                         uint32_t uptime)
{
    const uint32_t *words = c->enrolment.words;
    const uint64_t begin = 1000u * discreet_pair(words + DISCREET_E_EPOCH);
    const uint32_t batch = words[DISCREET_E_BATCH], interval = words[DISCREET_E_INTERVAL];
    uint64_t present, first, latest;
    if (now < begin || (present = (now - begin) / interval) > 0xFFFFFFFFu - batch)
        return 0;
    latest = c->running && c->round > c->next_round ? c->round : c->next_round;
    if (latest > present + batch + DISCREET_BACK) {
        if (discreet_may_be_behind(c, present, ticks))
            return 0;
        if (discreet_turn_back(c, present))
            return c->error = DISCREET_BAD_STORAGE;
        c->doubt = 1;
    }
    if (!c->running || c->doubt) {
        c->doubt = 0;
        c->running = 1;
        c->round = present;
        discreet_clear_rows(c);
    }
    if (present <= c->round)
        return 0;
    discreet_read_rows(c);
    first = c->round - c->round % batch;
    c->round = present;
    if (present < first + batch)
        return 0;
    if (first >= c->next_round) {
        const uint32_t quarter = interval / 4;
        c->error = discreet_client_release(c, first, uptime);
        c->publish_at = begin + (first + batch) * interval + (quarter < DISCREET_SLOT_MS ? quarter : DISCREET_SLOT_MS);
    }
    discreet_clear_rows(c);
    return c->error;
}

/* --- The connection ---------------------------------------------------------------------- */

/* The connection is there, and acknowledgements are subscribed to. */
static inline void discreet_client_connected(discreet_client *c)
{
    uint32_t i;
    for (i = 0; i < c->memory.slots; i++)
        c->memory.flights[i].sent = 0;
    c->up = 1;
}

/* The connection is lost, or could not be made. */
static inline void discreet_client_disconnected(discreet_client *c)
{
    c->up = 0;
}

/* The broker has what `publish` returned this number for. */
static inline void discreet_client_taken(discreet_client *c, int id, uint32_t ticks)
{
    uint32_t i;
    for (i = 0; i < c->memory.slots; i++)
        if (c->memory.flights[i].sent == 1 && c->memory.flights[i].id == id) {
            c->memory.flights[i].sent = 2;
            c->memory.flights[i].due += ticks;
        }
}

static inline int discreet_is_due(const discreet_client *c, const discreet_flight *f, uint64_t now,
                                  uint32_t ticks)
{
    if (f->state != DISCREET_WAITING || f->sent == 1)
        return 0;
    if (f->sent == 2 && f->due - ticks - 1u < 0x7FFFFFFFu)
        return 0; /* its retry is to come */
    if (f->boot != c->boot || f->seq + 1u != c->seq)
        return 1;
    return now >= c->publish_at || c->publish_at - now > DISCREET_SLOT_MS; /* else the clock went back */
}

/* The oldest message that is due and later than another one; NULL if there is none. */
static inline discreet_flight *discreet_next_due(discreet_client *c, const discreet_flight *after,
                                                 uint64_t now, uint32_t ticks)
{
    discreet_flight *best = NULL;
    uint32_t i;
    for (i = 0; i < c->memory.slots; i++) {
        discreet_flight *each = c->memory.flights + i;
        if (discreet_is_due(c, each, now, ticks) &&
            (after == NULL || discreet_is_before(after, each)) &&
            (best == NULL || discreet_is_before(each, best)))
            best = each;
    }
    return best;
}

/* Publish the stored bytes. How long to wait for an acknowledgement depends on the MAC, which looks
 * like chance. */
static inline int discreet_client_send(discreet_client *c, discreet_flight *flight, uint32_t ticks)
{
    const uint32_t slot = discreet_outbox_slot(c, (uint32_t)(flight - c->memory.flights));
    const size_t size = DISCREET_MESSAGE(c->enrolment.symbols);
    uint32_t pause;
    int id;
    if (!discreet_get_slot(c, slot, DISCREET_SLOT(c->enrolment.symbols)))
        return DISCREET_BAD_STORAGE;
    pause = flight->pause / 2 + flight->pause / 512 * c->memory.buffer[4 + size - 1];
    id = c->port.publish(c->port.context, c->topic, c->memory.buffer + 4, size);
    if (id < 0)
        return id;
    flight->id = id;
    flight->sent = id > 0 ? 1 : 2;
    flight->due = id > 0 ? pause : pause + ticks;
    flight->pause = flight->pause > 30000u ? 60000u : 2 * flight->pause;
    return 0;
}

static inline void discreet_client_send_due(discreet_client *c, uint64_t now, uint32_t ticks)
{
    discreet_flight *flight = NULL;
    uint32_t i, under_way = 0;
    for (i = 0; i < c->memory.slots; i++)
        under_way += c->memory.flights[i].state == DISCREET_WAITING && c->memory.flights[i].sent;
    while (c->up && !c->stopped && (flight = discreet_next_due(c, flight, now, ticks)) != NULL) {
        if (!flight->sent && under_way >= c->window)
            return;
        under_way += !flight->sent;
        if (discreet_client_send(c, flight, ticks) < 0)
            return;
    }
}

/* Do what is due. Call it again after at most as many milliseconds as it returns.
 *
 * `now`: UTC in milliseconds, 0 if it is not known. `ticks`: milliseconds on a clock that only
 * counts on; it may wrap. `uptime`: see discreet_release. What went wrong is in `error`. */
static inline uint32_t discreet_client_poll(discreet_client *c, uint64_t now, uint32_t ticks,
                                            uint32_t uptime)
{
    const uint32_t *words = c->enrolment.words, seq = c->seq;
    uint64_t begin, left;
    if (words == NULL)
        return 1000;
    begin = 1000u * discreet_pair(words + DISCREET_E_EPOCH);
    if (now != 0 && !c->stopped)
        (void)discreet_client_rounds(c, now, ticks, uptime);
    discreet_client_send_due(c, now, ticks);
    if (now < begin)
        return 1000;
    if (c->seq != seq)
        return 0; /* look at the clock again: how long it took must not show in when it is sent */
    left = words[DISCREET_E_INTERVAL] - (now - begin) % words[DISCREET_E_INTERVAL];
    if (now < c->publish_at && c->publish_at - now < left)
        left = c->publish_at - now;
    return left < 100 ? (uint32_t)left : 100;
}

/* --- What the site answers --------------------------------------------------------------- */

/* Forget a message for good: its slot says that it is done. */
static inline int discreet_client_done(discreet_client *c, uint32_t i)
{
    const size_t size = DISCREET_SLOT(c->enrolment.symbols);
    if (!discreet_get_slot(c, discreet_outbox_slot(c, i), size) ||
        discreet_put_slot(c, discreet_outbox_slot(c, i), "DSOd", size))
        return DISCREET_BAD_STORAGE; /* it is sent, and acknowledged, again */
    c->memory.flights[i].state = DISCREET_DONE;
    c->waiting--;
    return 0;
}

static inline int discreet_client_entry(discreet_client *c, const unsigned char *entry)
{
    const uint64_t boot = discreet_get(entry, 8);
    const uint32_t first = (uint32_t)discreet_get(entry + 8, 4);
    const uint32_t length = (uint32_t)discreet_get(entry + 12, 4);
    uint32_t i;
    int error = 0;
    for (i = 0; i < c->memory.slots; i++) {
        const discreet_flight *flight = c->memory.flights + i;
        if (flight->state != DISCREET_WAITING || flight->boot != boot || flight->seq < first ||
            flight->seq - first >= length)
            continue;
        if (discreet_client_done(c, i))
            error = DISCREET_BAD_STORAGE;
        else
            c->refused += entry[16] != DISCREET_STORED;
    }
    if (entry[16] == DISCREET_STOP && boot == c->boot)
        c->stopped = 1;
    return error;
}

/* Act on a message that came on the topic of acknowledgements, from anybody. */
static inline int discreet_client_heard(discreet_client *c, const void *payload, size_t size)
{
    const unsigned char *data = (const unsigned char *)payload;
    const uint32_t *words = c->enrolment.words;
    size_t at;
    int error = 0;
    if (words == NULL || size < DISCREET_ACK_FRAME || size > 65536u + DISCREET_ACK_FRAME ||
        data[1] != 1 || data[size - 9] != 0x48)
        return DISCREET_NOT_FOR_US;
    if (data[0] != 0x83 || data[2] != 0x59 ||
        discreet_get(data + 3, 2) != size - DISCREET_ACK_FRAME ||
        (size - DISCREET_ACK_FRAME) % DISCREET_ENTRY != 0 ||
        !discreet_is_sealed(words + DISCREET_E_KEY, c->ack_topic, data, size))
        return DISCREET_NOT_FOR_US;
    for (at = 5; at < size - 9; at += DISCREET_ENTRY)
        if (discreet_client_entry(c, data + at))
            error = DISCREET_BAD_STORAGE;
    return error;
}

#endif
