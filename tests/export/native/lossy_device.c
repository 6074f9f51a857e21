/* The example for Linux, with a tenth of the acknowledgements lost on the way. The file CLOCK, if it is
 * there, holds the seconds by which its clock is ahead. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "discreet_client.h"

static int lossy_heard(discreet_client *client, const void *data, size_t size)
{
    return rand() % 10 == 0 ? 0 : discreet_client_heard(client, data, size);
}

static int wrong_clock_gettime(clockid_t clock, struct timespec *at)
{
    const int code = clock_gettime(clock, at);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("CLOCK"), "r") : NULL;
    long ahead = 0;
    if (file != NULL) {
        if (fscanf(file, "%ld", &ahead) == 1)
            at->tv_sec += ahead;
        fclose(file);
    }
    return code;
}

#define clock_gettime wrong_clock_gettime
#define discreet_client_heard lossy_heard
#include "main.c"
