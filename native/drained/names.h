/* Names of hosts: /etc/hosts, /etc/resolv.conf, and messages of DNS (RFC 1035). Pure. */
#ifndef NAMES_H
#define NAMES_H

#include "address.h"

enum { MOST_NAME = 253, MOST_ADDRESSES = 8, MOST_SERVERS = 3, MOST_SEARCHED = 32, MOST_MESSAGE = 1232 };

struct addresses {
  size_t count;
  struct address list[MOST_ADDRESSES];
};

/* resolv.conf(5) */
struct resolver {
  size_t servers;
  struct address server[MOST_SERVERS];
  size_t searched;
  /* Pieces of the text. */
  struct slice search[MOST_SEARCHED];
  uint64_t ndots;
  /* Seconds for the answer of one server, and rounds through all of them. */
  uint64_t timeout;
  uint64_t attempts;
};

struct resolver read_resolver(struct slice text);
/* Adds the addresses of this name. */
void find_in_hosts(struct slice text, struct slice name, struct addresses *found);

enum record { RECORD_A = 1, RECORD_AAAA = 28 };

/* The bytes of a question; 0: the name is none. */
size_t write_query(struct slice name, enum record record, uint16_t id, uint8_t message[MOST_MESSAGE]);

enum dns_answer {
  /* Not the answer to this question. */
  DNS_FOREIGN,
  /* Addresses were added, or the name has none of this family. */
  DNS_FOUND,
  DNS_NO_NAME,
  /* The server cannot tell now. */
  DNS_FAILED,
};

/* `query`: the question as it was sent. */
enum dns_answer read_dns(const uint8_t *message, size_t length, const uint8_t *query, size_t query_length, struct addresses *found);

#endif
