/* Runs on a Cortex-M3 under QEMU (mps2-an385): draws, releases, counts instructions.
 *
 * With `-icount shift=0` an instruction takes one virtual nanosecond, and SysTick counts at
 * 25 MHz: 40 instructions a tick. The source here is for the test alone; a device has its own. */
#include "bundle.h"

extern void stack_top(void); /* an address, not a function: the first vector */
int main(void);

static void semihost(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void start(void)
{
    main();
    semihost(0x18, (const void *)0x20026); /* exit, all is well */
    for (;;) {
    }
}

static void stuck(void)
{
    semihost(0x18, (const void *)0x20024);
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    stack_top, start, stuck, stuck, stuck, stuck, stuck};

static void say(const char *what, uint32_t number)
{
    char line[64];
    int at = 0, digits = 0;
    char reversed[10];
    while (*what)
        line[at++] = *what++;
    do
        reversed[digits++] = (char)('0' + number % 10);
    while (number /= 10);
    while (digits)
        line[at++] = reversed[--digits];
    line[at++] = '\n';
    line[at] = 0;
    semihost(0x04, line);
}

static uint32_t lcg_state;

static uint32_t lcg(void)
{
    return lcg_state = lcg_state * 1664525u + 1013904223u;
}

static int source(void *out, size_t size)
{
    unsigned char *bytes = out;
    size_t i;
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

#define SYST ((volatile uint32_t *)0xE000E010u)

static uint32_t ticks(void)
{
    return 0xFFFFFFu - SYST[2];
}

static uint32_t per_call(uint32_t began, uint32_t calls)
{
    return ((ticks() - began) & 0xFFFFFFu) * 40u / calls;
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

int main(void)
{
    static discreet_sensor sensor;
    static uint32_t words[1000];
    uint32_t i, began, sum = 0;
    const uint32_t periods = 200;
    SYST[1] = 0xFFFFFF;
    SYST[2] = 0;
    SYST[0] = 5;
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
        sum = sum * 31 + (uint32_t)discreet_release(&sensor, i % sensor.table.rows, i / 20 + 1);
        discreet_delivered(&sensor);
    }
    say("release ", per_call(began, periods));
    say("first ", same_word(&sensor.table, 0));
    say("last ", same_word(&sensor.table, 0xFFFFFFFFu));
    say("sum ", sum);
    return 0;
}
