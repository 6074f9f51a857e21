/* A Cortex-M under QEMU without a system: vectors, output by semihosting, instructions counted.
 *
 * With `-icount shift=0` an instruction takes one virtual nanosecond, and SysTick counts at TICK
 * instructions a tick, as the machine has it. The program defines main. */
#include <stdint.h>

#ifndef TICK
#define TICK 40u /* 25 MHz */
#endif

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

#define SYST ((volatile uint32_t *)0xE000E010u)

static uint32_t ticks(void)
{
    return 0xFFFFFFu - SYST[2];
}

static uint32_t per_call(uint32_t began, uint32_t calls)
{
    return ((ticks() - began) & 0xFFFFFFu) * TICK / calls;
}

static void begin_counting(void)
{
    SYST[1] = 0xFFFFFF;
    SYST[2] = 0;
    SYST[0] = 5;
}
