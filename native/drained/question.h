/* The question, from flags and from what a container knows of its Pod (src/fleet/drained/drain-question.ts). Pure. */
#ifndef QUESTION_H
#define QUESTION_H

#include "address.h"
#include "names.h"

struct fleet {
  /* A name, or an address in canonical text. */
  struct slice host;
  bool is_address;
  struct address address;
  uint16_t port;
  /* As URL.host has it: without the port of HTTP, with the brackets of IPv6. */
  struct slice shown;
  char host_bytes[MOST_NAME + 1];
  char shown_bytes[MOST_NAME + 16];
};

/* Go's form of a duration, in nanoseconds. -1: it is none, or not more than 0 and at most 10 minutes. */
int64_t read_timeout(struct slice text);
/* http://HOST:PORT */
bool read_fleet(struct slice text, struct fleet *fleet);
/* NAMESPACE/NAME */
bool is_pod(struct slice text);
/* As a value of a form (application/x-www-form-urlencoded). */
void put_encoded(struct sink *sink, struct slice text);

#endif
