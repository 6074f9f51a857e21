/* Prints the SHA-256 of stdin and the HMAC under its first bytes, as many as argv says. */
#include <stdio.h>
#include <stdlib.h>

#include "discreet_sha256.h"

int main(int count, char **arguments)
{
    static unsigned char data[1 << 14];
    unsigned char digest[DISCREET_DIGEST];
    size_t size = fread(data, 1, sizeof data, stdin), key = count > 1 ? (size_t)atol(arguments[1]) : 0;
    discreet_sha256 hash;
    discreet_hmac mac;
    discreet_sha256_start(&hash);
    discreet_sha256_add(&hash, data, size);
    discreet_sha256_end(&hash, digest);
    fwrite(digest, 1, sizeof digest, stdout);
    discreet_hmac_start(&mac, data, key);
    discreet_hmac_add(&mac, data + key, size - key);
    discreet_hmac_end(&mac, digest);
    fwrite(digest, 1, sizeof digest, stdout);
    return 0;
}
