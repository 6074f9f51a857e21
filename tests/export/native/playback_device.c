/* The example for Linux, whose readings are the lines of a file, one for each round. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>

static FILE *next_reading(const char *path, const char *mode)
{
    static FILE *table;
    static char line[64];
    if (strcmp(mode, "r") != 0)
        return fopen(path, mode);
    if (table == NULL)
        table = fopen(path, mode);
    if (table == NULL || fgets(line, sizeof line, table) == NULL)
        return NULL;
    return fmemopen(line, strlen(line), "r");
}

#define fopen next_reading
#include "main.c"
