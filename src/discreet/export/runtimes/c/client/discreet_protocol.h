/* discreet_protocol.h: the enrolment of a device and the bytes that it sends, as in docs/protocol.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DISCREET_PROTOCOL_H
#define DISCREET_PROTOCOL_H

#include "discreet.h"

enum {
    DISCREET_BAD_ENROLMENT = -6, /* damaged, of another version, or it makes no sense */
    DISCREET_NO_ROOM = -7,       /* too little memory was handed over */
    DISCREET_BAD_STORAGE = -8,   /* the outbox cannot be written, so nothing is released */
    DISCREET_NOT_FOR_US = -9     /* what was heard is no answer for this device */
};

/* --- The enrolment ----------------------------------------------------------------------- */

/* Words of its head; six texts, a table for each sensor and a CRC-32 follow. */
enum {
    DISCREET_E_MAGIC, DISCREET_E_LENGTH, DISCREET_E_FLAGS, DISCREET_E_EPOCH, DISCREET_E_INTERVAL = 5,
    DISCREET_E_BATCH, DISCREET_E_SENSORS, DISCREET_E_BOOT, DISCREET_E_SPENT = 10,
    DISCREET_E_MAPPING, DISCREET_E_KEY = 13, DISCREET_E_PREVIOUS = 21, DISCREET_E_PORT = 29,
    DISCREET_E_TEXTS, DISCREET_E_HEAD = 36
};
enum { DISCREET_TLS = 1, DISCREET_MQTT5 = 2, DISCREET_HAS_PREVIOUS = 4 };
#define DISCREET_ENROLMENT_MAGIC 0x31455344u /* "DSE1" */
#define DISCREET_MAX_SYMBOLS 65535u

typedef struct {
    const uint32_t *words; /* NULL unless all of it was checked */
    const char *site, *client, *host, *ca, *certificate, *private_key; /* ended by a zero byte */
    const uint32_t *tables;
    uint32_t symbols; /* in a message */
} discreet_enrolment;

static inline uint64_t discreet_pair(const uint32_t *low_first)
{
    return (uint64_t)low_first[1] << 32 | low_first[0];
}

static inline int discreet_is_name(const char *text, uint32_t length)
{
    uint32_t i;
    for (i = 0; i < length; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') ||
              (text[i] == '-' && i)))
            return 0;
    return length > 0 && length <= 32;
}

static inline int discreet_is_host(const char *text, uint32_t length)
{
    uint32_t i;
    for (i = 0; i < length; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
              (text[i] >= '0' && text[i] <= '9') || text[i] == '.' || text[i] == ':' ||
              text[i] == '-'))
            return 0;
    return length > 0 && length <= 253;
}

/* Whether the head of an enrolment makes sense by itself. */
static inline int discreet_is_head(const uint32_t *words, uint32_t count)
{
    uint32_t probe = 1;
    return *(const unsigned char *)&probe == 1 && /* texts are read in place */
           count > DISCREET_E_HEAD && words[DISCREET_E_MAGIC] == DISCREET_ENROLMENT_MAGIC &&
           words[DISCREET_E_LENGTH] == count && words[count - 1] == discreet_crc(words, count - 1) &&
           words[DISCREET_E_FLAGS] <= 7 && words[DISCREET_E_EPOCH + 1] < 256 &&
           words[DISCREET_E_INTERVAL] - 1u < 86400000u && words[DISCREET_E_BOOT + 1] < 0x80000000u &&
           words[DISCREET_E_BATCH] - 1u < DISCREET_MAX_SYMBOLS &&
           words[DISCREET_E_SENSORS] - 1u < DISCREET_MAX_SYMBOLS &&
           words[DISCREET_E_SENSORS] <= DISCREET_MAX_SYMBOLS / words[DISCREET_E_BATCH] &&
           words[DISCREET_E_PORT] - 1u < 65535u;
}

/* Return the table after another one, or NULL if there is none within the words before `end`. */
static inline const uint32_t *discreet_next_table(const uint32_t *table, const uint32_t *end)
{
    size_t left = (size_t)(end - table);
    return left > DISCREET_HEAD && table[1] <= left && table[1] > DISCREET_HEAD ? table + table[1]
                                                                               : NULL;
}

/* Check an enrolment that anybody may have written; nothing of it is used unless this returns 0. */
static inline int discreet_enrolment_open(discreet_enrolment *e, const uint32_t *words, size_t size)
{
    const char **texts[6];
    const uint32_t *at, *end;
    discreet_table table;
    uint32_t i, count = (uint32_t)(size / 4);
    memset(e, 0, sizeof *e);
    if (words == NULL || size % 4 || size / 4 > 0x1000000u || !discreet_is_head(words, count))
        return DISCREET_BAD_ENROLMENT;
    texts[0] = &e->site;
    texts[1] = &e->client;
    texts[2] = &e->host;
    texts[3] = &e->ca;
    texts[4] = &e->certificate;
    texts[5] = &e->private_key;
    at = words + DISCREET_E_HEAD;
    end = words + count - 1;
    for (i = 0; i < 6; i++) {
        const uint32_t length = words[DISCREET_E_TEXTS + i];
        *texts[i] = (const char *)at;
        if (length / 4 >= (size_t)(end - at) || memchr(at, 0, 4 * ((size_t)length / 4 + 1)) !=
                                                    (const void *)(*texts[i] + length))
            return DISCREET_BAD_ENROLMENT; /* it ends elsewhere, or a zero byte is in it */
        at += length / 4 + 1;
    }
    if (!discreet_is_name(e->site, words[DISCREET_E_TEXTS]) ||
        !discreet_is_name(e->client, words[DISCREET_E_TEXTS + 1]) ||
        !discreet_is_host(e->host, words[DISCREET_E_TEXTS + 2]))
        return DISCREET_BAD_ENROLMENT;
    e->tables = at;
    for (i = 0; i < words[DISCREET_E_SENSORS]; i++) {
        const uint32_t *next = discreet_next_table(at, end);
        if (next == NULL || discreet_open(&table, at, 4 * (size_t)at[1]) ||
            memcmp(at + DISCREET_H_MAPPING, words + DISCREET_E_MAPPING, 8) != 0)
            return DISCREET_BAD_ENROLMENT;
        at = next;
    }
    if (at != end)
        return DISCREET_BAD_ENROLMENT;
    e->symbols = words[DISCREET_E_BATCH] * words[DISCREET_E_SENSORS];
    e->words = words;
    return 0;
}

/* --- What travels ------------------------------------------------------------------------ */

enum {
    DISCREET_MESSAGE_FRAME = 47, DISCREET_MAC = 8, DISCREET_ENTRY = 17, DISCREET_ACK_FRAME = 14,
    DISCREET_TOPIC = 84
};
enum { DISCREET_STORED, DISCREET_REFUSED, DISCREET_STOP };
#define DISCREET_MESSAGE(symbols) (DISCREET_MESSAGE_FRAME + (symbols)) /* bytes */

static inline unsigned char *discreet_put(unsigned char *to, uint64_t value, int bytes)
{
    while (bytes-- > 0)
        *to++ = (unsigned char)(value >> (8 * bytes));
    return to;
}

/* A CBOR integer in full width, or the head of one in a string. */
static inline unsigned char *discreet_item(unsigned char *to, int head, uint64_t value, int bytes)
{
    *to = (unsigned char)head;
    return discreet_put(to + 1, value, bytes);
}

static inline uint64_t discreet_get(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | *from++;
    return value;
}

static inline void discreet_mac(const void *key, const char *topic, const unsigned char *data,
                                size_t size, unsigned char *mac)
{
    unsigned char digest[DISCREET_DIGEST];
    discreet_hmac hmac;
    discreet_hmac_start(&hmac, key, 32);
    discreet_hmac_add(&hmac, topic, strlen(topic) + 1); /* its zero byte included */
    discreet_hmac_add(&hmac, data, size);
    discreet_hmac_end(&hmac, digest);
    memcpy(mac, digest, DISCREET_MAC);
}

/* Whether the last bytes are the MAC of those before; takes as long wherever they differ. */
static inline int discreet_is_sealed(const void *key, const char *topic, const unsigned char *data,
                                     size_t size)
{
    unsigned char mac[DISCREET_MAC], differs = 0;
    int i;
    discreet_mac(key, topic, data, size - DISCREET_MAC, mac);
    for (i = 0; i < DISCREET_MAC; i++)
        differs |= mac[i] ^ data[size - DISCREET_MAC + (size_t)i];
    return differs == 0;
}

typedef struct {
    uint64_t boot;
    uint32_t seq, round, spent;
} discreet_numbers;

/* Make a message of the symbols, which lie at `message + 29` already. */
static inline void discreet_seal(const discreet_enrolment *e, const char *topic,
                                 const discreet_numbers *numbers, unsigned char *message)
{
    unsigned char *at = discreet_item(message, 0x88, 1, 1);
    const size_t size = DISCREET_MESSAGE(e->symbols);
    at = discreet_item(at, 0x1B, numbers->boot, 8);
    at = discreet_item(at, 0x1A, numbers->seq, 4);
    at = discreet_item(at, 0x1A, numbers->round, 4);
    at = discreet_item(at, 0x1A, numbers->spent, 4);
    at = discreet_item(at, 0x59, e->symbols, 2) + e->symbols;
    *at++ = 0x48;
    memcpy(at, e->words + DISCREET_E_MAPPING, 8);
    at[8] = 0x48;
    discreet_mac(e->words + DISCREET_E_KEY, topic, message, size - DISCREET_MAC, at + 9);
}

/* Whether a message was sealed for this device, under its key or the one before. */
static inline int discreet_is_ours(const discreet_enrolment *e, const char *topic,
                                   const unsigned char *message)
{
    const size_t size = DISCREET_MESSAGE(e->symbols);
    return message[0] == 0x88 && discreet_get(message + 27, 2) == e->symbols &&
           (discreet_is_sealed(e->words + DISCREET_E_KEY, topic, message, size) ||
            ((e->words[DISCREET_E_FLAGS] & DISCREET_HAS_PREVIOUS) &&
             discreet_is_sealed(e->words + DISCREET_E_PREVIOUS, topic, message, size)));
}

#endif
