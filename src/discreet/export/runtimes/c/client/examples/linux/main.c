/* A device on Linux, with libmosquitto for MQTT and TLS, and files for what survives a reboot.
 *
 *     cc -O2 -I../.. main.c -lmosquitto -lm -o discreet-device
 *     ./discreet-device hall.enrolment /var/lib/hall /run/readings
 *
 * The last file holds a reading for each sensor, one to a line; it is read at the end of each round.
 * An empty line, or no such file, is no reading. Send SIGTERM to end it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <mosquitto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "discreet_client.h"

#ifndef SLOTS
#define SLOTS 1000 /* messages that may wait */
#endif
enum { LINE = 256 };

static volatile sig_atomic_t ended;
static const char *state, *readings;
static struct mosquitto *mqtt;
static discreet_client client;

static uint64_t milliseconds(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return 1000u * (uint64_t)at.tv_sec + (uint64_t)at.tv_nsec / 1000000u;
}

static void *lend(size_t count, size_t size)
{
    void *found = calloc(count, size);
    if (found == NULL)
        exit(2);
    return found;
}

/* --- Storage: a file for each slot, replaced by renaming ---------------------------------- */

static const char *path_of(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", state, name);
    return path;
}

static int load(void *context, uint32_t slot, void *data, size_t size)
{
    char name[32];
    FILE *file;
    size_t found;
    (void)context;
    snprintf(name, sizeof name, "slot-%u", (unsigned)slot);
    file = fopen(path_of(name), "rb");
    if (file == NULL)
        return errno == ENOENT ? 0 : -1;
    found = fread(data, 1, size, file);
    fclose(file);
    return (int)found;
}

static int write_whole(const char *name, const void *data, size_t size)
{
    char draft[4096];
    int file, folder, done;
    snprintf(draft, sizeof draft, "%s", path_of("draft"));
    file = open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return -1;
    done = write(file, data, size) == (ssize_t)size && fsync(file) == 0;
    done = close(file) == 0 && done && rename(draft, path_of(name)) == 0;
    folder = open(state, O_RDONLY);
    done = folder >= 0 && fsync(folder) == 0 && done;
    if (folder >= 0)
        close(folder);
    return done ? (int)size : -1;
}

static int store(void *context, uint32_t slot, const void *data, size_t size)
{
    char name[32];
    (void)context;
    snprintf(name, sizeof name, "slot-%u", (unsigned)slot);
    return write_whole(name, data, size);
}

/* --- Randomness and readings -------------------------------------------------------------- */

static int rng(void *context, void *out, size_t size)
{
    (void)context;
    return (int)getrandom(out, size, 0);
}

static uint32_t row(void *context, uint32_t sensor, const discreet_table *table)
{
    char line[LINE] = "", *end;
    FILE *file = fopen(readings, "r");
    uint32_t i;
    double number;
    (void)context;
    for (i = 0; file != NULL && i <= sensor; i++) {
        memset(line, 0, sizeof line);
        if (fgets(line, LINE, file) == NULL)
            line[0] = 0;
    }
    if (file != NULL)
        fclose(file);
    line[strcspn(line, "\n")] = 0;
    if (discreet_kind(table) == DISCREET_CATEGORIES)
        return discreet_category(table, line[0] ? line : DISCREET_NO_TEXT, line[0] ? LINE : 2);
    number = strtod(line, &end);
    if (line[0] == 0)
        number = (double)NAN;
    else if (*end != 0)
        return discreet_unreadable(table); /* sent like any other: silence would tell */
    if (discreet_kind(table) == DISCREET_CODES)
        return discreet_code_or_none(table, number >= 0 ? (long)(number < 1e9 ? number : 1e9) : -1);
    return discreet_bin(table, number);
}

/* --- MQTT --------------------------------------------------------------------------------- */

static int publish(void *context, const char *topic, const void *data, size_t size)
{
    int id = 0;
    (void)context;
    return mosquitto_publish(mqtt, &id, topic, (int)size, data, 1, false) ? -1 : id;
}

static void on_connect(struct mosquitto *m, void *context, int refused)
{
    (void)context;
    if (refused || mosquitto_subscribe(m, NULL, client.ack_topic, 0))
        fprintf(stderr, "the broker refuses the connection (%d)\n", refused);
    else
        discreet_client_connected(&client);
}

static void on_disconnect(struct mosquitto *m, void *context, int reason)
{
    (void)m, (void)context, (void)reason;
    discreet_client_disconnected(&client);
}

static void on_publish(struct mosquitto *m, void *context, int id)
{
    (void)m, (void)context;
    discreet_client_taken(&client, id, (uint32_t)milliseconds(CLOCK_MONOTONIC));
}

static void on_message(struct mosquitto *m, void *context, const struct mosquitto_message *message)
{
    (void)m, (void)context;
    if (message->payloadlen > 0)
        discreet_client_heard(&client, message->payload, (size_t)message->payloadlen);
}

static struct mosquitto *new_connection(void)
{
    const discreet_enrolment *e = &client.enrolment;
    char ca[4096], certificate[4096], key[4096];
    struct mosquitto *m = mosquitto_new(e->client, true, NULL);
    if (m == NULL)
        return NULL;
    mosquitto_connect_callback_set(m, on_connect);
    mosquitto_disconnect_callback_set(m, on_disconnect);
    mosquitto_publish_callback_set(m, on_publish);
    mosquitto_message_callback_set(m, on_message);
    if (e->words[DISCREET_E_FLAGS] & DISCREET_TLS) {
        write_whole("ca.crt", e->ca, strlen(e->ca));
        write_whole("client.crt", e->certificate, strlen(e->certificate));
        write_whole("client.key", e->private_key, strlen(e->private_key));
        snprintf(ca, sizeof ca, "%s", path_of("ca.crt"));
        snprintf(certificate, sizeof certificate, "%s", path_of("client.crt"));
        snprintf(key, sizeof key, "%s", path_of("client.key"));
        if (mosquitto_tls_set(m, ca, NULL, certificate, key, NULL))
            return NULL;
    }
    return m;
}

/* Connect; a new session each time, so that the library keeps nothing that it might send twice. */
static int connect_again(void)
{
    if (mqtt != NULL)
        mosquitto_destroy(mqtt);
    mqtt = new_connection();
    if (mqtt != NULL && mosquitto_connect(mqtt, client.enrolment.host,
                                          (int)client.enrolment.words[DISCREET_E_PORT], 30) == 0)
        return 1;
    discreet_client_disconnected(&client);
    return 0;
}

static void stop(int signal_number)
{
    (void)signal_number;
    ended = 1;
}

static void pause_for(uint32_t wait)
{
    struct timespec time = {(time_t)(wait / 1000), (long)(wait % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

/* Say what keeps readings from the site, once for each time that it begins. */
static void complain(int error, int line)
{
    static int last_error, last_line = 1;
    if (error && error != last_error)
        fprintf(stderr, "%s cannot be used; nothing is drawn until it can\n",
                error == DISCREET_NO_RANDOMNESS ? "the random source" : state);
    if (!line && last_line)
        fprintf(stderr, "no connection to %s; trying again (was this device revoked?)\n",
                client.enrolment.host);
    last_error = error;
    last_line = line;
}

/* Work until a signal comes or the site stops us. */
static void work(void)
{
    uint32_t patience = 200, chance;
    int line = 0, tried = 0;
    while (!ended && !client.stopped) {
        const uint32_t ticks = (uint32_t)milliseconds(CLOCK_MONOTONIC);
        const uint32_t wait = discreet_client_poll(&client, milliseconds(CLOCK_REALTIME), ticks,
                                                   (uint32_t)(milliseconds(CLOCK_BOOTTIME) / 1000));
        complain(client.error, client.up || tried < 3);
        tried = client.up ? 0 : tried;
        if (line) {
            line = mosquitto_loop(mqtt, (int)wait, 1) == 0;
            patience = client.up ? 200 : patience;
        } else {
            static uint64_t next;
            if (milliseconds(CLOCK_MONOTONIC) < next) {
                pause_for(wait);
                continue;
            }
            client.up = 0;
            line = connect_again();
            tried++;
            rng(NULL, &chance, sizeof chance);
            next = milliseconds(CLOCK_MONOTONIC) + patience / 2 + chance % (patience / 2 + 1);
            patience = patience < 5000 ? 2 * patience : 10000;
        }
    }
}

int main(int count, char **arguments)
{
    static const discreet_port port = {NULL, load, store, rng, publish, row};
    static uint32_t words[1 << 20];
    discreet_memory memory;
    discreet_enrolment told;
    FILE *file = count == 4 ? fopen(arguments[1], "rb") : NULL;
    size_t size;
    int error;
    if (file == NULL) {
        fprintf(stderr, "usage: %s ENROLMENT STATE READINGS\n", arguments[0]);
        return 2;
    }
    size = fread(words, 1, sizeof words, file);
    fclose(file);
    state = arguments[2];
    readings = arguments[3];
    if (discreet_enrolment_open(&told, words, size)) {
        fprintf(stderr, "%s: is no enrolment, or damaged. Enrol again.\n", arguments[1]);
        return 2;
    }
    memory.parts = lend(words[DISCREET_E_SENSORS], sizeof *memory.parts);
    memory.rows = lend(told.symbols, sizeof *memory.rows);
    memory.flights = lend(SLOTS, sizeof *memory.flights);
    memory.slots = SLOTS;
    memory.room = DISCREET_SLOT(told.symbols) + DISCREET_HEAD_BYTES;
    memory.buffer = lend(memory.room, 1);
    memory.make_new = mkdir(state, 0700) == 0;
    error = discreet_client_start(&client, words, size, &port, &memory, milliseconds(CLOCK_REALTIME));
    if (error) {
        fprintf(stderr, "cannot start (%d); see discreet.h and discreet_protocol.h\n", error);
        return 2;
    }
    mosquitto_lib_init();
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    work();
    if (client.stopped)
        fprintf(stderr, "another device sends as %s; this one stops\n", told.client);
    return client.stopped ? 2 : 0;
}
