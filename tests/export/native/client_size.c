/* What a firmware with the client links in: all that it calls, and nothing of an MQTT library. */
#include "discreet_client.h"

discreet_client client;

int start(const uint32_t *words, size_t size, const discreet_port *port, const discreet_memory *memory,
          uint64_t now)
{
    return discreet_client_start(&client, words, size, port, memory, now);
}

uint32_t poll(uint64_t now, uint32_t ticks, uint32_t uptime)
{
    return discreet_client_poll(&client, now, ticks, uptime);
}

int heard(const void *data, size_t size)
{
    return discreet_client_heard(&client, data, size);
}

void connected(int up, int id, uint32_t ticks)
{
    if (up)
        discreet_client_connected(&client);
    else
        discreet_client_disconnected(&client);
    discreet_client_taken(&client, id, ticks);
}
