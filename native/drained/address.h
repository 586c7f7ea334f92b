/* IP addresses as text and as bytes. Pure. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include "text.h"

struct address {
  /* 4 or 16. */
  size_t length;
  uint8_t bytes[16];
};

/* Dotted decimal, with zeros in front of a number where `is_lenient`, or RFC 4291, 2.2, without a zone. */
bool read_address(struct slice text, bool is_lenient, struct address *address);
/* Dotted decimal, or RFC 5952. */
void put_address(struct sink *sink, struct address address);

#endif
