/* Run the client's example for ESP-IDF against an esp-mqtt that says everything at the worst moment:
 * while our task publishes, and so while a handler that waits would wait for ever.
 *
 * 40 rounds without a connection, then one; the site answers from the 60th on, each message twice.
 * Prints: published, different messages, waiting, given up, transport. */
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>

static int fake_time(struct timeval *at);
#define gettimeofday(at, zone) fake_time(at)
#include "bootloader_random.h"
#include "esp_rtc_time.h"
#include "esp_wifi.h"
#include EXAMPLE

enum { INTERVAL = 1000, ROUNDS = 120, QUEUES = 4, MESSAGES = 4000 };
static uint64_t clock_ms = 1800000000000u;
static int published, different, transport, connected;
static unsigned char seen[MESSAGES][12];

/* --- NVS, randomness and clocks --- */

static struct { char name[16]; unsigned char data[4096]; size_t size; } kept[200];
int nvs_flash_init(void) { return ESP_OK; }
esp_err_t nvs_commit(nvs_handle_t handle) { return (void)handle, ESP_OK; }
esp_err_t nvs_open(const char *name, int mode, nvs_handle_t *handle)
{
    return (void)name, (void)mode, *handle = 1, ESP_OK;
}
static int place(const char *key)
{
    int i = 0;
    while (kept[i].name[0] && strcmp(kept[i].name, key))
        i++;
    return i;
}
esp_err_t nvs_get_blob(nvs_handle_t handle, const char *key, void *out, size_t *size)
{
    const int i = place(key);
    (void)handle;
    if (!kept[i].name[0])
        return ESP_ERR_NVS_NOT_FOUND;
    *size = kept[i].size;
    memcpy(out, kept[i].data, *size);
    return ESP_OK;
}
esp_err_t nvs_set_blob(nvs_handle_t handle, const char *key, const void *data, size_t size)
{
    const int i = place(key);
    (void)handle;
    strcpy(kept[i].name, key);
    memcpy(kept[i].data, data, kept[i].size = size);
    return ESP_OK;
}
void bootloader_random_enable(void) {}
void bootloader_random_disable(void) {}
esp_err_t esp_wifi_get_max_tx_power(int8_t *power) { return *power = 0, ESP_OK; }
static wifi_ps_type_t asleep = WIFI_PS_MIN_MODEM; /* as the chip begins */
esp_err_t esp_wifi_set_ps(wifi_ps_type_t type) { return asleep = type, ESP_OK; }
esp_err_t esp_wifi_get_ps(wifi_ps_type_t *type) { return *type = asleep, ESP_OK; }
void esp_fill_random(void *out, size_t size)
{
    if (getrandom(out, size, 0) != (ssize_t)size)
        abort();
}
int64_t esp_timer_get_time(void) { return (int64_t)clock_ms * 1000; }
uint64_t esp_rtc_get_time_us(void) { return clock_ms * 1000; }
static int fake_time(struct timeval *at)
{
    at->tv_sec = (time_t)(clock_ms / 1000);
    at->tv_usec = (suseconds_t)(clock_ms % 1000 * 1000);
    return 0;
}
esp_err_t esp_event_loop_create_default(void) { return ESP_OK; }
esp_err_t esp_netif_sntp_init(const esp_sntp_config_t *config) { return (void)config, ESP_OK; }

/* --- FreeRTOS: whoever waits for room waits for ever, for nobody else can run --- */

struct queue { unsigned char items[64][512]; uint32_t length, size, count; };
static struct queue queues[QUEUES];
QueueHandle_t xQueueCreate(uint32_t length, uint32_t size)
{
    static int made;
    queues[made].length = length;
    queues[made].size = size;
    return &queues[made++];
}
BaseType_t xQueueSend(QueueHandle_t queue, const void *item, uint32_t ticks)
{
    if (queue->count == queue->length) {
        if (ticks)
            puts("a handler of esp-mqtt waits for ever"), exit(1);
        return 0;
    }
    memcpy(queue->items[queue->count++], item, queue->size);
    return pdTRUE;
}
BaseType_t xQueueOverwrite(QueueHandle_t queue, const void *item)
{
    queue->count = 0;
    return xQueueSend(queue, item, 0);
}
static void step(uint32_t ms);
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, uint32_t ticks)
{
    if (queue->count == 0) {
        step(ticks);
        return 0;
    }
    memcpy(item, queue->items[0], queue->size);
    queue->count--;
    memmove(queue->items[0], queue->items[1], queue->count * sizeof queue->items[0]);
    return pdTRUE;
}

/* --- esp-mqtt and the site --- */

struct esp_mqtt_client { int unused; };
static struct esp_mqtt_client the_only;
esp_mqtt_client_handle_t esp_mqtt_client_init(const esp_mqtt_client_config_t *config)
{
    return transport = (int)config->broker.address.transport, &the_only;
}
esp_err_t esp_mqtt_client_start(esp_mqtt_client_handle_t mine) { return (void)mine, ESP_OK; }
esp_err_t esp_mqtt_client_register_event(esp_mqtt_client_handle_t mine, esp_mqtt_event_id_t event,
                                         esp_event_handler_t handler, void *context)
{
    return (void)mine, (void)event, (void)handler, (void)context, ESP_OK;
}
int esp_mqtt_client_subscribe(esp_mqtt_client_handle_t mine, const char *topic, int qos)
{
    return (void)mine, (void)topic, (void)qos, 1;
}
static void tell(int32_t id, void *data, int size, int message)
{
    esp_mqtt_event_t event = {(esp_mqtt_event_id_t)id, data, size, size, message};
    on_event(NULL, NULL, id, &event);
}
/* What the site says to a message: its boot and seq are stored. */
static void acknowledge(const unsigned char *message)
{
    static unsigned char ack[DISCREET_ACK_FRAME + DISCREET_ENTRY] = {0x83, 1, 0x59, 0, DISCREET_ENTRY};
    memcpy(ack + 5, message + 3, 8);
    memcpy(ack + 13, message + 12, 4);
    discreet_put(ack + 17, 1, 4);
    ack[21] = DISCREET_STORED;
    ack[22] = 0x48;
    discreet_mac(client.enrolment.words + DISCREET_E_KEY, client.ack_topic, ack, sizeof ack - 8,
                 ack + sizeof ack - 8);
    tell(MQTT_EVENT_DATA, ack, sizeof ack, 0);
    tell(MQTT_EVENT_DATA, ack, sizeof ack, 0);
}
int esp_mqtt_client_publish(esp_mqtt_client_handle_t mine, const char *topic, const char *data,
                            int len, int qos, int retain)
{
    const unsigned char *message = (const unsigned char *)data;
    int i = 0;
    (void)mine, (void)topic, (void)len, (void)qos, (void)retain;
    while (i < different && memcmp(seen[i], message + 4, 12))
        i++;
    if (i == different)
        memcpy(seen[different++], message + 4, 12);
    for (i = 0; i < HURRY; i++) /* a library that says more than it was asked */
        tell(MQTT_EVENT_PUBLISHED, NULL, 0, 30000 + i);
    tell(MQTT_EVENT_PUBLISHED, NULL, 0, ++published);
    if (clock_ms > 1800000000000u + 60 * INTERVAL)
        acknowledge(message);
    return published;
}
static void step(uint32_t ms)
{
    clock_ms += ms;
    if (!connected && clock_ms > 1800000000000u + 40 * INTERVAL) {
        connected = 1;
        tell(MQTT_EVENT_DISCONNECTED, NULL, 0, 0);
        tell(MQTT_EVENT_CONNECTED, NULL, 0, 0);
    }
    if (clock_ms > 1800000000000u + ROUNDS * INTERVAL) {
        printf("%d %d %u %u %d\n", published, different, (unsigned)client.waiting,
               (unsigned)client.given_up, transport);
        exit(0);
    }
}
int main(void)
{
    app_main();
    return 2;
}
