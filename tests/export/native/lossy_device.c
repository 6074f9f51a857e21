/* The example for Linux, with a tenth of the acknowledgements lost on the way. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "discreet_client.h"

static int lossy_heard(discreet_client *client, const void *data, size_t size)
{
    return rand() % 10 == 0 ? 0 : discreet_client_heard(client, data, size);
}

#define discreet_client_heard lossy_heard
#include "main.c"
