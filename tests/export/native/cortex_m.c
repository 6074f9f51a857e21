/* Runs on a Cortex-M3 under QEMU (mps2-an385): draws, releases, counts instructions. The source here
 * is for the test alone; a device has its own. */
#include "bare_metal.h"
#include "bundle.h"
#include "discreet_protocol.h"

static uint32_t lcg_state;

static uint32_t lcg(void)
{
    return lcg_state = lcg_state * 1664525u + 1013904223u;
}

static int source(void *context, void *out, size_t size)
{
    unsigned char *bytes = out;
    size_t i;
    (void)context;
    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char)(lcg() >> 24);
    return (int)size;
}

static int load(void *context, void *record, size_t size)
{
    (void)context;
    (void)record;
    (void)size;
    return 0;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    (void)record;
    return (int)size;
}

/* Instructions of a thousand draws with the same word, for every row alike. */
static uint32_t same_word(const discreet_table *t, uint32_t word)
{
    volatile uint32_t sink = 0;
    uint32_t i, began = ticks();
    for (i = 0; i < 1000; i++)
        sink += (uint32_t)discreet_pick(t, i & 15u, word);
    return per_call(began, 1);
}

/* Instructions of a message of one symbol: its bytes, and the HMAC over them. */
static uint32_t message(void)
{
    static const uint32_t words[DISCREET_E_HEAD];
    static unsigned char bytes[DISCREET_MESSAGE(1)];
    const discreet_enrolment enrolment = {words, "", "", "", "", "", "", NULL, 1};
    discreet_numbers numbers = {1, 0, 0, 0};
    const uint32_t began = ticks();
    for (; numbers.seq < 100; numbers.seq++)
        discreet_seal(&enrolment, "discreet/v1/home/hall/z", &numbers, bytes);
    return per_call(began, 100);
}

int main(void)
{
    static discreet_sensor sensor;
    static uint32_t words[1000];
    uint32_t i, began, sum = 0;
    const uint32_t periods = 200;
    begin_counting();
    began = ticks();
    if (discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL, 1))
        stuck();
    say("start ", per_call(began, 1));
    for (i = 0; i < 1000; i++)
        words[i] = lcg();
    began = ticks();
    for (i = 0; i < 1000; i++)
        sum = sum * 31 + (uint32_t)discreet_pick(&sensor.table, i % sensor.table.rows, words[i]);
    say("draw ", per_call(began, 1000));
    began = ticks();
    for (i = 0; i < 1000; i++)
        sum += discreet_bin(&sensor.table, (double)words[i]);
    say("encode ", per_call(began, 1000));
    began = ticks();
    for (i = 0; i < periods; i++) {
        sum = sum * 31 + (uint32_t)discreet_release(&sensor, i % sensor.table.rows, i / 20 * 86400);
        discreet_delivered(&sensor);
    }
    say("release ", per_call(began, periods));
    say("message ", message());
    say("first ", same_word(&sensor.table, 0));
    say("last ", same_word(&sensor.table, 0xFFFFFFFFu));
    say("sum ", sum);
    return 0;
}
