/* Just enough of FreeRTOS for an example to compile. */
#pragma once
#include <stdint.h>
typedef struct queue *QueueHandle_t;
typedef int BaseType_t;
#define pdTRUE 1
#define portMAX_DELAY 0xFFFFFFFFu
QueueHandle_t xQueueCreate(uint32_t length, uint32_t size);
BaseType_t xQueueSend(QueueHandle_t queue, const void *item, uint32_t ticks);
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, uint32_t ticks);
BaseType_t xQueueOverwrite(QueueHandle_t queue, const void *item);
